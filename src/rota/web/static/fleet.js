// What several screens show of the fleet.

import { part } from "./api.js";
import { ago } from "./format.js";
import { source } from "./live.js";

export const overview = source("/v1/overview", ["nodes", "resources", "tasks", "jobs", "runs", "streams", "relays"]);
export const nodes = source("/v1/nodes", ["nodes", "tasks"]);
export const jobs = source("/v1/jobs?limit=1000", ["jobs", "runs"]);
export const kinds = source("/v1/kinds", ["resources"]);
export const whyNode = (id) => source(`/v1/why/${part(id)}`, ["nodes", "tasks", "resources"]);
export const whyResource = (kind, id) => source(`/v1/why/${part(kind)}/${part(id)}`, ["nodes", "tasks", "resources"]);

const TROUBLED = ["failed", "timed out", "lost"];

// What is wrong, the worst first: what the overview says, and jobs whose last run failed, while they are known.
export function concerns() {
  const seen = overview.value?.concerns || [];
  const failed = (jobs.isStale ? [] : jobs.value?.jobs || []).filter((job) => TROUBLED.includes(job.last?.state)).map((job) => ({
    severity: "warning", about: "job", subject: job.name, text: `${job.last.state} ${ago(job.last.ended)}${job.last.error ? `: ${job.last.error}` : ""}`,
  }));
  return [...seen.filter((each) => each.severity === "error"), ...failed, ...seen.filter((each) => each.severity !== "error")];
}

// A resource's or task's name in its two parts.
export function parted(name) {
  const slash = name.indexOf("/");
  return [name.slice(0, slash), name.slice(slash + 1)];
}

// The resource that a task is one of.
export const resourceOf = (task) => parted(task.slice(0, task.lastIndexOf("#")));

// The nodes that a status names: `id|address`, joined by commas.
export const nodesOf = (status) => (status?.AssignedNode ? status.AssignedNode.split(",").map((each) => each.split("|")[0]) : []);
