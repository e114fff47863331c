-- Whose a conversation of an agent is: sessions that keep their records in one home could be taken for each other.
CREATE TABLE conversation_claims (
    home         TEXT NOT NULL,                  -- where the agent keeps its records: of a user, of a workspace's sandbox, of a machine
    agent        TEXT NOT NULL,
    conversation TEXT NOT NULL,                  -- the agent's own id of it
    session_id   TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
    team_id      TEXT NOT NULL REFERENCES teams(id) ON DELETE CASCADE,
    claimed_at   BIGINT NOT NULL,
    PRIMARY KEY (home, agent, conversation)
);
CREATE INDEX conversation_claims_by_session ON conversation_claims(session_id);
