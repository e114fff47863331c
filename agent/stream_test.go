package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/parawork/parawork/agent"
	"github.com/parawork/parawork/agent/providers"
)

// BenchmarkLongAnswer measures what an answer costs by its length: the time for each byte must not grow with it.
func BenchmarkLongAnswer(b *testing.B) {
	for _, size := range []int{64 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size>>10, "KiB"), func(b *testing.B) {
			h := newHarness(b)
			const piece = "sixteen letters "
			th := h.open(agent.Options{})
			b.SetBytes(int64(size))
			for b.Loop() {
				h.model.then(func(_ context.Context, _ providers.Request, say func(providers.Event)) error {
					for range size / len(piece) {
						say(providers.Event{Kind: providers.TextDelta, Text: piece})
					}
					say(providers.Event{Kind: providers.PartDone, Part: providers.Part{Kind: providers.Text, Text: strings.Repeat(piece, size/len(piece))}})
					say(providers.Event{Kind: providers.Done, Stop: providers.StopEndTurn})
					return nil
				})
				h.send(th.ID, "Go.")
				err := h.svc.Follow(h.ctx, th.ID, 0, func(u agent.Update) error {
					if u.Turn != nil && u.Turn.State != agent.TurnRunning {
						return errSeen
					}
					return nil
				})
				if !errors.Is(err, errSeen) {
					b.Fatal(err)
				}
			}
		})
	}
}
