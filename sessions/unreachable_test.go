package sessions_test

import (
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/parawork/parawork/executors/fake"
)

// deaf are pipes from which nothing reaches the host any more, while what it writes still arrives.
type deaf struct {
	mu  sync.Mutex
	on  bool
	end chan struct{}
}

func (d *deaf) set(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.on = on
}

func (d *deaf) is() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.on
}

func (d *deaf) wrap(p io.ReadWriteCloser) io.ReadWriteCloser { return &deafPipe{p, d} }

type deafPipe struct {
	io.ReadWriteCloser
	d *deaf
}

func (p *deafPipe) Read(b []byte) (int, error) {
	n, err := p.ReadWriteCloser.Read(b)
	if p.d.is() {
		<-p.d.end
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// What was on its way when the place went out of reach is not said to be lost: it is typed once, whether it had arrived or not.
func TestWhatWasTypedIntoAPlaceThatGoesAwayIsTypedOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	d := &deaf{end: make(chan struct{})}
	h.knobs = fake.Knobs{Wrap: d.wrap}
	s := h.start()
	row := s.run(t, "sh", "-c", "stty -echo; echo ready; while read l; do echo got $l; : > seen-$l; done")
	eventually(t, "it is ready", func() bool { return strings.Contains(s.output(t, row.ID), "ready") })
	if err := s.Input(t.Context(), h.actor, row.ID, "one\r"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the first line is read", func() bool { return strings.Contains(s.output(t, row.ID), "got one") })
	d.set(true)
	typed := make(chan error, 1)
	go func() { typed <- s.Input(t.Context(), h.actor, row.ID, "two\r") }()
	eventually(t, "the second line has arrived", func() bool { return h.has("seen-two") })
	s.places.Set(fake.Knobs{Wrap: d.wrap, DialErr: errors.New("no line")})
	close(d.end)
	h.pipes.cut()
	if err := <-typed; err != nil {
		t.Errorf("what was on its way: %v", err)
	}
	third := 0 // times it is to be read: what is refused is not typed, then or later
	if err := s.Input(t.Context(), h.actor, row.ID, "three\r"); err == nil {
		third = 1
	}
	d.set(false)
	s.places.Set(fake.Knobs{})
	eventually(t, "typing goes on", func() bool { return s.Input(t.Context(), h.actor, row.ID, "four\r") == nil })
	eventually(t, "everything is read", func() bool { return strings.Contains(s.output(t, row.ID), "got four") })
	if got := s.output(t, row.ID); strings.Count(got, "got two") != 1 || strings.Count(got, "got three") != third || strings.Count(got, "got four") != 1 {
		t.Errorf("typed %q", got)
	}
}
