package preview

import "time"

// CheckEvery lets p ask for rights more often. It is called before p serves.
func (p *Proxy) CheckEvery(d time.Duration) { p.every = d }
