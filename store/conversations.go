package store

import (
	"context"

	"github.com/parawork/parawork/sessions"
)

// maxClaims bounds the conversations one session holds: an agent that begins another one every time it speaks gives the oldest back.
const maxClaims = 16

// ClaimConversation makes a conversation a session's; false when it is another's that runs or ended after c.Until. The key of the
// table decides between those who claim one at the same moment.
func (s *Sessions) ClaimConversation(ctx context.Context, c sessions.Claim) (bool, error) {
	claimed := false
	err := s.db.Tx(ctx, func(ctx context.Context) error {
		res, err := s.db.Exec(ctx, `/* every team: records of an agent lie in a home that the teams of its user share */
			INSERT INTO conversation_claims (home, agent, conversation, session_id, team_id, claimed_at) VALUES (?,?,?,?,{team?},?)
			ON CONFLICT (home, agent, conversation) DO UPDATE
			SET session_id = excluded.session_id, team_id = excluded.team_id, claimed_at = excluded.claimed_at
			WHERE conversation_claims.session_id = excluded.session_id OR EXISTS (
				SELECT 1 FROM sessions s WHERE s.id = conversation_claims.session_id AND s.ended_at <> 0 AND s.ended_at <= ?)`,
			c.Home, c.Agent, c.Conversation, c.SessionID, c.TeamID, c.At, c.Until)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		if claimed = n == 1; err != nil || !claimed {
			return err
		}
		if _, err := s.db.Exec(ctx, `UPDATE sessions SET conversation = ? WHERE id = ? AND team_id = {team?}`, c.Conversation, c.SessionID, c.TeamID); err != nil {
			return err
		}
		_, err = s.db.Exec(ctx, `DELETE FROM conversation_claims WHERE session_id = ? AND team_id = {team?} AND conversation NOT IN (
			SELECT c.conversation FROM conversation_claims c WHERE c.session_id = ? AND {team:c} ORDER BY c.claimed_at DESC, c.conversation LIMIT ?)
			AND conversation <> ?`, c.SessionID, c.TeamID, c.SessionID, maxClaims, c.Conversation)
		return err
	})
	return claimed, Wrap(err, "claiming a conversation")
}

// Conversations returns the conversation ids that sessions of an agent hold which were running at some time after since.
func (s *Sessions) Conversations(ctx context.Context, agent string, since int64) ([]string, error) {
	rows, err := s.db.Query(ctx, `/* every team: records of an agent lie in a home that the teams of its user share */ SELECT conversation FROM sessions WHERE agent = ? AND conversation <> '' AND (ended_at = 0 OR ended_at >= ?)`,
		agent, since)
	out, err := Column[string](rows, err)
	return out, Wrap(err, "reading conversations")
}
