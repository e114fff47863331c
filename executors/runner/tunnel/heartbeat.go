//go:build !failpoints && !race

package tunnel

// standard is the timing of every connection that is told no other.
func standard() Timing { return Timing{Ping: PingEvery, Dead: Dead} }
