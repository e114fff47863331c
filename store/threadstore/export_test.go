package threadstore

// BoundMedia bounds the contents of each thread, bytes.
func (s *Threads) BoundMedia(most int64) { s.mostMedia = most }
