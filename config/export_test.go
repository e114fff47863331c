package config

import "reflect"

// Equal reports whether both say the same, whoever gave it.
func (c *Config) Equal(o *Config) bool {
	a, b := *c, *o
	for name, v := range a.Sandboxing.places {
		if !v.Equal(b.Sandboxing.places[name]) {
			return false
		}
	}
	same := len(a.Sandboxing.places) == len(b.Sandboxing.places)
	for _, x := range []*Config{&a, &b} {
		x.given, x.Sandboxing.places, x.Sandboxing.tree = nil, nil, reflect.Value{}
	}
	return same && reflect.DeepEqual(a, b)
}
