package tending

import "context"

// Step looks at one pull request if its time has come.
func (s *Service) Step(ctx context.Context, workspaceID string) { s.look(ctx, workspaceID) }

// Decide is decide, as what it does in words.
func Decide(t Tending, rounds []Round, f Facts) (what, code string) {
	f.Rounds = rounds
	m := decide(t, f)
	return [...]string{"wait", "begin", "update", "merge", "ask", "finish"}[m.do], m.code
}

// Heard is heard.
func Heard(comments []Said, answer string) []Said { return heard(comments, answer) }
