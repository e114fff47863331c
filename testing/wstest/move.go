package wstest

// Set sets the number of running sessions.
func (s *Setups) Set(n int) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.Open = n
}
