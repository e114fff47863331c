//go:build failpoints || race

package tunnel

import (
	"os"
	"time"
)

// PingEnv names the variable that shortens the timing in programs that tests kill and cut off: a duration, such as 300ms.
const PingEnv = "PARAWORK_TUNNEL_PING"

// standard is the default timing of connections.
func standard() Timing {
	d, err := time.ParseDuration(os.Getenv(PingEnv))
	if err != nil || d <= 0 {
		return Timing{Ping: PingEvery, Dead: Dead}
	}
	return Timing{Ping: d, Dead: d * Dead / PingEvery}
}
