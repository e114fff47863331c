package testkit_test

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/sessions/screen"
	"github.com/parawork/parawork/testing/testkit"
)

// A hundred viewers come and go at random under load: some from the beginning, some from where they were, some with the screen as
// it is. Each is given the bytes of the program, every one from its offset on, and sees the same screen.
func TestHundredViewersComeAndGo(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t)
	ws := h.Workspace(h.Sample(), "Crowd")
	const program = `read x; i=0; while [ $i -lt 100 ]; do seq -f "$(printf '\033[3%dm' $((i%8)))$i.%.0f colours and text \033[0m世界" 1 300; sleep 0.03; i=$((i+1)); done; printf 'E''ND'; sleep 1000`
	s := h.Run(ws.ID, "sh", "-c", program)
	all := h.Attach(s.ID, "from=0")
	must(t, all.Type("\r"))
	type visit struct {
		what  string
		from  int64
		bytes []byte
		snap  []byte
		last  bool // stayed to the end
		size  [2]uint16
	}
	var mu sync.Mutex
	var visits []visit
	var crowd sync.WaitGroup
	end := make(chan struct{})
	var total int64 // told by closing end
	for i := range 100 {
		crowd.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 7))
			had := int64(0)
			for round := 0; ; round++ {
				query := [...]string{"from=0&role=viewer", fmt.Sprintf("from=%d&role=viewer", had), "role=viewer"}[rng.IntN(3)]
				v, _, err := h.TryAttach(s.ID, query, nil)
				if err != nil {
					t.Errorf("viewer %d: %v", i, err)
					return
				}
				last := round > 5 || rng.IntN(4) == 0
				if last {
					<-end
					if query != fmt.Sprintf("from=%d&role=viewer", total) { // who asks from the end on is sent nothing
						if err := v.Until("it has everything", func() bool { return v.End() == total }); err != nil {
							t.Errorf("viewer %d (%s): %v", i, query, err)
						}
					}
				} else {
					select {
					case <-time.After(time.Duration(rng.IntN(300)) * time.Millisecond): // any moment of the stream
					case <-end:
					}
				}
				from, b := v.Bytes()
				if !last && v.Err() != nil {
					t.Errorf("viewer %d (%s): %v", i, query, v.Err())
				}
				v.Close()
				mu.Lock()
				visits = append(visits, visit{query, from, b, v.Screen(), last, v.Size()})
				mu.Unlock()
				if had = max(had, from+int64(len(b))); last {
					return
				}
			}
		})
	}
	for seen := int64(0); ; { // See would copy all of it for each frame
		if err := all.Until("there is more", func() bool { return all.End() > seen }); err != nil {
			close(end)
			t.Fatal(err)
		}
		seen = all.End()
		if _, b := all.Bytes(); bytes.HasSuffix(b, []byte("END")) {
			total = seen
			break
		}
	}
	close(end)
	crowd.Wait()
	_, want := all.Bytes()
	// A screen is compared a little after it was given: what makes it another one shows there at once, and has scrolled away at the end. What
	// it is compared with is one screen that reads on from visit to visit.
	const beyond = 8 << 10
	upTo := func(v visit) int64 { return v.from + min(int64(len(v.bytes)), beyond) }
	slices.SortFunc(visits, func(a, b visit) int { return cmp.Compare(upTo(a), upTo(b)) })
	type reference struct {
		screen *screen.Screen
		at     int64
	}
	references := map[[2]uint16]*reference{}
	screens := 0
	for _, v := range visits {
		if v.from < 0 {
			continue // it left before anything came
		}
		if to := v.from + int64(len(v.bytes)); to > int64(len(want)) || !bytes.Equal(v.bytes, want[v.from:to]) {
			t.Fatalf("%s: other bytes from %d on", v.what, v.from)
		}
		if v.snap == nil {
			continue
		}
		screens++
		cfg := screen.Config{Cols: int(v.size[0]), Rows: int(v.size[1])}
		got, ref := screen.New(cfg), references[v.size]
		if ref == nil {
			ref = &reference{screen: screen.New(cfg)}
			references[v.size] = ref
		}
		_, _ = got.Write(v.snap)
		_, _ = got.Write(v.bytes[:upTo(v)-v.from])
		_, _ = ref.screen.Write(want[ref.at:upTo(v)])
		ref.at = upTo(v)
		if !bytes.Equal(got.Snapshot(0), ref.screen.Snapshot(0)) {
			t.Fatalf("a screen given at %d is another one at %d", v.from, ref.at)
		}
	}
	if screens < 30 {
		t.Errorf("%d visits began with a screen", screens)
	}
	t.Logf("%d visits, %d began with a screen, %d bytes of output", len(visits), screens, len(want))
}
