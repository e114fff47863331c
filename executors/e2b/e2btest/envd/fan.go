package envd

import "sync"

// outputBuffer is how many pieces of output wait for the slowest reader before the process itself does.
const outputBuffer = 64

// fan hands each piece of output to everybody who listens at that moment. The slowest listener holds up all of them, and the process; what
// comes while nobody listens is lost.
type fan struct {
	source chan *data

	mu     sync.Mutex
	subs   map[*listener]struct{}
	closed bool
}

type listener struct {
	c    chan *data
	gone chan struct{}
	once sync.Once
}

func newFan() *fan {
	f := &fan{source: make(chan *data, outputBuffer), subs: map[*listener]struct{}{}}
	go f.run()
	return f
}

func (f *fan) run() {
	for d := range f.source {
		f.mu.Lock()
		now := make([]*listener, 0, len(f.subs))
		for l := range f.subs {
			now = append(now, l)
		}
		f.mu.Unlock()
		for _, l := range now {
			select {
			case l.c <- d:
			case <-l.gone:
			}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for l := range f.subs {
		close(l.c)
	}
	f.subs = nil
}

// listen begins to listen. The channel is closed behind the last piece.
func (f *fan) listen() *listener {
	l := &listener{c: make(chan *data), gone: make(chan struct{})}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		close(l.c)
		return l
	}
	f.subs[l] = struct{}{}
	return l
}

func (f *fan) leave(l *listener) {
	l.once.Do(func() { close(l.gone) })
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.subs, l)
}
