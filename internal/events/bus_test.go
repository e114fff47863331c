package events_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/parawork/parawork/internal/events"
)

func publish(t *testing.T, b *events.Bus, team, id string) {
	t.Helper()
	b.Publish(t.Context(), events.Event{Type: "workspace.updated", TeamID: team, ID: id})
}

// drain returns the ids of the events waiting.
func drain(s *events.Sub) []string {
	var out []string
	for {
		select {
		case e, open := <-s.C:
			if !open {
				return append(out, "closed")
			}
			out = append(out, e.ID)
		default:
			return out
		}
	}
}

func want(t *testing.T, got []string, ids ...string) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(ids) {
		t.Errorf("got %v, want %v", got, ids)
	}
}

func TestEventsReachTheirTeam(t *testing.T) {
	t.Parallel()
	b := events.New()
	one, two, all := b.Subscribe("t1", 0), b.Subscribe("t2", 0), b.Subscribe("", 0)
	publish(t, b, "t1", "a")
	publish(t, b, "t2", "b")
	publish(t, b, "", "c")
	want(t, drain(one), "a")
	want(t, drain(two), "b")
	want(t, drain(all), "a", "b", "c")
	one.Close()
	one.Close()
	publish(t, b, "t1", "d")
	want(t, drain(one), "closed")
}

func TestSlowReceiverLearnsThatItMissed(t *testing.T) {
	t.Parallel()
	b := events.New()
	s, quick := b.Subscribe("t", 0), b.Subscribe("t", 0)
	for i := range 1000 {
		publish(t, b, "t", fmt.Sprint(i))
		<-quick.C
	}
	if quick.Missed() {
		t.Error("the quick receiver missed something because of the slow one")
	}
	if got := drain(s); len(got) >= 1000 || got[0] != "0" || !s.Missed() || s.Missed() {
		t.Errorf("%d events, Missed wrong", len(got))
	}
	publish(t, b, "t", "next")
	want(t, drain(s), "next")
}

func TestResumeFromTheLastSeen(t *testing.T) {
	t.Parallel()
	b := events.New()
	s := b.Subscribe("t", 0)
	publish(t, b, "t", "a")
	publish(t, b, "other", "x")
	publish(t, b, "t", "b")
	seen := (<-s.C).Seq
	resumed := b.Subscribe("t", seen)
	want(t, drain(resumed), "b")
	if resumed.Missed() {
		t.Error("nothing was missed")
	}
	idle := b.Subscribe("t", 0)
	if again := b.Subscribe("t", idle.Start()); again.Missed() || len(drain(again)) != 0 {
		t.Error("nothing happened since")
	}
	for i := range 2000 {
		publish(t, b, "t", fmt.Sprint(i))
	}
	for name, since := range map[string]int64{"too old": seen, "another process's": seen << 3, "of an earlier life": 12} {
		if s := b.Subscribe("t", since); !s.Missed() {
			t.Errorf("%s: got no event", name)
		}
	}
}

// A reconnecting receiver gets what was missed in order, wherever it begins in the ring, and also after everything stored was dropped.
func TestResumeInOrder(t *testing.T) {
	t.Parallel()
	b := events.New()
	s := b.Subscribe("t", 0)
	var seqs []int64
	publishMany := func(n int) {
		for range n {
			publish(t, b, "t", fmt.Sprint(len(seqs)))
			seqs = append(seqs, (<-s.C).Seq)
		}
	}
	check := func() {
		t.Helper()
		for _, back := range []int{1, 2, 100, 200} {
			from := len(seqs) - back - 1
			r := b.Subscribe("t", seqs[from])
			for i, id := range drain(r) {
				if id != fmt.Sprint(from+1+i) {
					t.Fatalf("%d back: the %dth is %s", back, i, id)
				}
			}
			if r.Missed() {
				t.Errorf("%d back: told that something was missed", back)
			}
			r.Close()
		}
		if len(seqs) > 1025 {
			if r := b.Subscribe("t", seqs[len(seqs)-1026]); !r.Missed() {
				t.Error("missed events are not reported")
			}
			if r := b.Subscribe("t", seqs[len(seqs)-1025]); r.Start() == 0 {
				t.Error("no start")
			}
		}
	}
	for _, n := range []int{300, 723, 1, 1, 500, 1023} { // up to the end of the ring, over it, and round again
		publishMany(n)
		check()
	}
	b.Lost()
	<-s.C
	s.Missed()
	seqs = seqs[:0]
	publishMany(300)
	check()
}

// Publishing costs the same however much is kept.
func BenchmarkPublish(b *testing.B) {
	bus := events.New()
	for range 2000 {
		bus.Publish(b.Context(), events.Event{TeamID: "t"})
	}
	for b.Loop() {
		bus.Publish(b.Context(), events.Event{TeamID: "t"})
	}
}

func TestLostWakesEverybody(t *testing.T) {
	t.Parallel()
	b := events.New()
	s := b.Subscribe("t", 0)
	before := s.Start()
	publish(t, b, "t", "a")
	b.Lost()
	<-s.C
	if e := <-s.C; e.Type != events.Resync || !s.Missed() {
		t.Errorf("got %+v", e)
	}
	if r := b.Subscribe("t", before); !r.Missed() {
		t.Error("a receiver with an older number gets no Resync")
	}
}

func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	b := events.New()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 200 {
				publish(t, b, "t", fmt.Sprint(i))
			}
		})
		wg.Go(func() {
			for range 50 {
				s := b.Subscribe("t", 1)
				select {
				case <-s.C:
				default:
				}
				s.Missed()
				s.Close()
			}
		})
	}
	wg.Wait()
	s := b.Subscribe("t", 0)
	publish(t, b, "t", "last")
	want(t, drain(s), "last")
}
