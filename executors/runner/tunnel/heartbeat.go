//go:build !failpoints && !race

package tunnel

// standard is the default timing of connections.
func standard() Timing { return Timing{Ping: PingEvery, Dead: Dead} }
