package history

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestPouringIsManyBytesInAShortTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p throttle
		for range 100 { // an agent that redraws its screen
			p.add(time.Now(), 4<<10)
			time.Sleep(20 * time.Millisecond)
		}
		if p.now() {
			t.Error("redraws count as throttle")
		}
		for range 20 {
			p.add(time.Now(), 64<<10)
			time.Sleep(time.Millisecond)
		}
		if !p.now() {
			t.Error("a burst does not count")
		}
		time.Sleep(throttleRest + throttleWindow)
		if p.now() {
			t.Error("it never ends")
		}
	})
}
