package accounts

// HashOf is how a secret is kept.
func HashOf(secret string) string { return hashOf(secret) }

// Counted is how many counters of attempts are in memory.
func (s *Service) Counted() int {
	s.limits.mu.Lock()
	defer s.limits.mu.Unlock()
	return len(s.limits.buckets)
}
