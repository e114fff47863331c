package accounts

import "github.com/parawork/parawork/accounts/password"

// HashOf is how a secret is kept.
func HashOf(secret string) string { return password.Digest(secret) }

// Counted is how many counters of attempts are in memory.
func (s *Service) Counted() int { return s.limits.Counted() }
