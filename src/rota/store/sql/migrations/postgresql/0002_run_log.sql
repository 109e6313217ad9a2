-- The output of runs, in pieces of at most 64 KiB: neither keys nor history, and gone when its run is forgotten.
CREATE TABLE rota_run_log (
    run TEXT COLLATE "C" NOT NULL,
    attempt BIGINT NOT NULL,
    place BIGINT NOT NULL,
    at_ms BIGINT NOT NULL,
    is_last INTEGER NOT NULL,
    data BYTEA NOT NULL,
    PRIMARY KEY (run, attempt, place)
);

CREATE INDEX rota_run_log_by_age ON rota_run_log (at_ms) WHERE place = 0;
