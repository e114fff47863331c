-- Projects in folders of the server take turns at this row when they are added: each sees those before it.
CREATE TABLE folder_claims (
    id   INTEGER PRIMARY KEY,
    turn BIGINT NOT NULL DEFAULT 0
);
INSERT INTO folder_claims (id) VALUES (1);
