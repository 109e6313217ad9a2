-- All SQL of the store, by name. `?` is a parameter, {braces} are what the dialects say differently.
-- Every transaction that writes the log begins with `bump` or `lock`: the counter row serialises writers, so that
-- revisions commit in the order of their numbers and leave no holes, and a reader may trust "greater than".

-- name: counter
SELECT revision, compacted FROM rota_counter WHERE id = 1

-- name: lock
SELECT revision, compacted FROM rota_counter WHERE id = 1 {for_update}

-- name: bump
{bump}

-- name: set_counter
UPDATE rota_counter SET revision = ? WHERE id = 1

-- name: get
SELECT key, value, created, modified, lease FROM rota_live WHERE key = ?

-- name: scan
SELECT key, value, created, modified, lease FROM rota_live WHERE key >= ? AND key < ? ORDER BY key LIMIT ?

-- name: scan_at
SELECT log.key, log.value, log.created, log.revision, log.lease
FROM rota_log AS log
WHERE log.key >= ? AND log.key < ? AND log.revision <= ? AND log.value IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM rota_log AS newer
    WHERE newer.key = log.key AND newer.revision > log.revision AND newer.revision <= ?
)
ORDER BY log.key LIMIT ?

-- name: state_of
SELECT key, created, modified FROM rota_live WHERE key IN {keys}

-- The counter stands before each row, and alone if there is none: one statement is one snapshot, and one round trip.

-- name: tail
SELECT counter.revision, counter.compacted, page.revision, page.key, page.value, page.created, page.lease
FROM rota_counter AS counter LEFT JOIN (
    SELECT revision, key, value, created, lease FROM rota_log
    WHERE revision > ? AND key >= ? AND key < ? ORDER BY revision, key LIMIT ?
) AS page ON 1 = 1
WHERE counter.id = 1 ORDER BY page.revision, page.key

-- The same for MySQL and MariaDB, which put all that a joined subquery finds into a table on disk, twice. The names are
-- those by which the driver knows what is text.

-- name: tail_united
(
    SELECT revision, compacted, NULL AS page, NULL AS key, NULL AS value, NULL AS created, NULL AS lease
    FROM rota_counter WHERE id = 1
)
UNION ALL (
    SELECT NULL, NULL, revision, key, value, created, lease FROM rota_log
    WHERE revision > ? AND key >= ? AND key < ? ORDER BY revision, key LIMIT ?
)

-- name: one_revision
SELECT counter.compacted, log.revision, log.key, log.value, log.created, log.lease
FROM rota_counter AS counter LEFT JOIN rota_log AS log ON log.revision = ? AND log.key >= ? AND log.key < ?
WHERE counter.id = 1 ORDER BY log.key

-- name: append
INSERT INTO rota_log (revision, key, value, created, lease) {log_rows}

-- name: place
INSERT INTO rota_live (key, value, created, modified, lease) {live_rows}
{or_update}

-- name: remove
DELETE FROM rota_live WHERE key IN {keys}

-- name: keys_of_lease
SELECT key, created FROM rota_live WHERE lease = ? ORDER BY key

-- name: lease_ids
SELECT id FROM rota_lease WHERE id IN {keys}

-- name: grant
INSERT INTO rota_lease (id, ttl_ms, renewals, expires_ms) VALUES (?, ?, 0, {now_ms} + ?)

-- name: renew
UPDATE rota_lease SET renewals = renewals + 1, expires_ms = {now_ms} + ttl_ms WHERE id = ?

-- name: end_lease
DELETE FROM rota_lease WHERE id = ?

-- An expiry further away than the ttl means that the clock was set back: it then says nothing, and the sweeper's own
-- observation decides alone.

-- name: leases
SELECT id, renewals, ttl_ms, expires_ms <= {now_ms} OR expires_ms > {now_ms} + ttl_ms FROM rota_lease

-- A renewal takes no lock but its row's. So whether the lease was renewed is asked by the very statement that ends it,
-- which waits for a renewal that is under way, and then looks at what that has written.

-- name: expire_lease
DELETE FROM rota_lease
WHERE id = ? AND renewals = ? AND (expires_ms <= {now_ms} OR expires_ms > {now_ms} + ttl_ms)

-- name: now
SELECT {now_ms}

-- name: mark_compacted
UPDATE rota_counter SET compacted = ? WHERE id = 1

-- What goes is looked for between two revisions, the last compaction's and this one's, so that looking costs as much as
-- has changed and not as much as there is. It is read first and deleted then: no writer waits for the looking.

-- name: window_end
SELECT revision FROM rota_log WHERE revision > ? AND revision <= ? ORDER BY revision, key LIMIT 1 OFFSET ?

-- name: superseded
SELECT DISTINCT older.revision, older.key
FROM rota_log AS newer JOIN rota_log AS older ON older.key = newer.key AND older.revision < newer.revision
WHERE newer.revision > ? AND newer.revision <= ?

-- name: tombstones
SELECT revision, key FROM rota_log WHERE revision > ? AND revision <= ? AND value IS NULL

-- name: forget
DELETE FROM rota_log WHERE {log_places}

-- The output of runs. It has nothing to do with revisions: nobody watches it, and no commit waits for it.

-- name: keep_output
INSERT INTO rota_run_log (run, attempt, place, at_ms, is_last, data) VALUES (?, ?, ?, ?, ?, ?)
{or_keep}

-- name: output
SELECT place, data FROM rota_run_log
WHERE run = ? AND attempt = ? AND place > ? AND place <= ? ORDER BY place

-- name: output_behind
SELECT MIN(place) FROM rota_run_log WHERE run = ? AND attempt = ? AND place > ?

-- name: output_before
SELECT place + LENGTH(data) FROM rota_run_log
WHERE run = ? AND attempt = ? AND place <= ? ORDER BY place DESC LIMIT 1

-- name: output_is_whole
SELECT 1 FROM rota_run_log WHERE run = ? AND attempt = ? AND is_last = 1 LIMIT 1

-- name: forget_output
{forget_output}

-- name: output_is_there
SELECT 1 FROM rota_run_log WHERE run IN {keys} LIMIT 1

-- name: output_sizes
SELECT run, SUM(LENGTH(data)) FROM rota_run_log WHERE run > ? GROUP BY run ORDER BY run LIMIT ?

-- name: output_size
SELECT COALESCE(SUM(LENGTH(data)), 0) FROM rota_run_log WHERE run = ?

-- name: old_output
SELECT run, MIN(at_ms) AS oldest FROM rota_run_log WHERE place = 0 AND at_ms < ?
GROUP BY run ORDER BY oldest, run LIMIT ?
