// What several screens show of the fleet.

import { part } from "./api.js";
import { source } from "./live.js";

export const overview = source("/v1/overview", ["nodes", "resources", "tasks", "jobs", "runs", "streams", "relays"]);
export const nodes = source("/v1/nodes", ["nodes", "tasks"]);
export const jobs = source("/v1/jobs?limit=1000", ["jobs", "runs"]);
export const kinds = source("/v1/kinds", ["resources"]);
export const whyNode = (id) => source(`/v1/why/${part(id)}`, ["nodes", "tasks", "resources"]);
export const whyResource = (kind, id) => source(`/v1/why/${part(kind)}/${part(id)}`, ["nodes", "tasks", "resources"]);

// A resource's or task's name in its two parts.
export function parted(name) {
  const slash = name.indexOf("/");
  return [name.slice(0, slash), name.slice(slash + 1)];
}

// The resource that a task is one of.
export const resourceOf = (task) => parted(task.slice(0, task.lastIndexOf("#")));

// The nodes that a status names: `id|address`, joined by commas.
export const nodesOf = (status) => (status?.AssignedNode ? status.AssignedNode.split(",").map((each) => each.split("|")[0]) : []);
