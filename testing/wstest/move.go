package wstest

// Set makes so many sessions run.
func (s *Setups) Set(n int) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.Open = n
}
