-- The output of runs, in pieces of at most 64 KiB: neither keys nor history, and gone when its run is forgotten.
CREATE TABLE rota_run_log (
    run TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    place INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    is_last INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (run, attempt, place)
);

CREATE INDEX rota_run_log_by_age ON rota_run_log (at_ms) WHERE place = 0;
