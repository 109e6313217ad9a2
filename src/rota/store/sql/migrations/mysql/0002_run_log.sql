-- The output of runs, in pieces of at most 64 KiB: neither keys nor history, and gone when its run is forgotten.
CREATE TABLE IF NOT EXISTS rota_run_log (
    run VARBINARY(400) NOT NULL,
    attempt BIGINT NOT NULL,
    place BIGINT NOT NULL,
    at_ms BIGINT NOT NULL,
    is_last INTEGER NOT NULL,
    data MEDIUMBLOB NOT NULL,
    PRIMARY KEY (run, attempt, place),
    INDEX rota_run_log_by_age (at_ms)
) ENGINE=InnoDB;
