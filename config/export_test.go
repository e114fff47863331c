package config

// Bare is c without what it remembers of which keys were given.
func (c *Config) Bare() *Config {
	b := *c
	b.given = nil
	return &b
}
