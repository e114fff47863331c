//go:build linux

package daemon

import (
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// What a program wrote before it ended is waited for while it lies unread, however late the machine comes to reading it: others hold the
// output open here, so that its end never comes.
func TestLastWordsOfABusyMachine(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	defer r.Close()
	drained := func() time.Duration {
		var took time.Duration
		synctest.Test(t, func(*testing.T) {
			pu := newPump(nil, r, nil, 0)
			p := &process{pumps: []*pump{pu}}
			began := time.Now()
			p.drain()
			took = time.Since(began)
			if !pu.discard.Load() {
				t.Error("an output that has no end is not cut")
			}
		})
		return took
	}
	if took := drained(); took >= drainMax {
		t.Errorf("with nothing to read it waited %v", took)
	}
	if _, err := w.WriteString("last words"); err != nil {
		t.Fatal(err)
	}
	if took := drained(); took < drainMax {
		t.Errorf("it left last words unread after %v", took)
	}
}
