package workspaces_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
)

// place does one thing to a workspace's sandbox: as a person, or as its provider.
func (p *proof) place(rng *rand.Rand, x *piece) {
	before, gen := p.scan(x)
	what, lost := "", false
	err := p.do(func(ctx context.Context) error {
		var err error
		what, lost, err = p.shift(ctx, rng, x)
		return err
	})
	outcome := "done"
	if err != nil {
		outcome = cmp.Or(fault.CodeOf(err), err.Error())
	}
	p.step("place of %s %s: %s", x.id, what, outcome)
	p.unexpected(what, err)
	if lost {
		return // what nobody had looked at went with it
	}
	why := fmt.Sprintf("there before step %d, %s", p.at(), what)
	owe := func() { p.owe(x, why, before, gen, func(was, is version) bool { return was != is }) }
	if errors.Is(err, errDied) {
		p.cut = append(p.cut, owe)
		return
	}
	owe()
}

// shift returns what it did, and whether a sandbox ended without the server.
func (p *proof) shift(ctx context.Context, rng *rand.Rand, x *piece) (what string, lost bool, err error) {
	w := p.whole
	switch rng.IntN(12) {
	case 0, 1, 2, 3:
		to := string(wholeKinds[rng.IntN(len(wholeKinds))])
		what = "moves to " + to
		if _, err := p.h.S.MoveLive(ctx, p.h.Actor, x.id, to, ""); err != nil {
			return what, false, err
		}
		m, err := p.moveEnd(ctx, x.id)
		if err == nil && m.State != workspaces.MoveDone {
			err = fault.New(fault.Conflict, "move_"+m.State, "%s", m.Reason)
		}
		return what, false, err
	case 4, 5, 6:
		_, err := w.m.Ensure(ctx, x.id)
		return "starts", false, err
	case 7:
		return "stops", false, w.m.Destroy(ctx, x.id)
	case 8:
		return "suspends", false, w.m.Pause(ctx, x.id, "A person paused it.")
	case 9:
		return "wakes", false, w.m.Wake(ctx, x.id)
	case 10:
		if place, ok := w.m.Live(x.id); ok && place.Kind == cloudKind {
			w.world.Expire(place.SandboxID) // nobody tells the server
		}
		return "suspends when idle", false, w.m.Check(ctx, x.id)
	}
	if w.sandbox(x.id) == "" {
		return "has no sandbox to lose", false, nil
	}
	w.world.Vanish(w.sandbox(x.id))
	if err := w.m.Check(ctx, x.id); !errors.Is(err, executors.ErrGone) {
		return "dies", true, err
	}
	return "dies", true, nil
}

// moveEnd waits until a move has ended, or the server.
func (p *proof) moveEnd(ctx context.Context, id string) (workspaces.Moving, error) {
	for {
		if _, dead := p.life.over(); dead {
			return workspaces.Moving{}, errDied
		}
		if _, moves := p.h.S.MoveOf(id); !moves {
			all, err := p.h.Store.Moves(context.WithoutCancel(ctx), id, 1)
			if err != nil || len(all) == 0 {
				return workspaces.Moving{}, err
			}
			if all[0].EndedAt != 0 {
				return all[0], nil
			}
		}
		time.Sleep(2 * time.Millisecond) // the interval of looking, not of waiting
	}
}

// endRemote ends the remote sandboxes: the rest is about what this server stores.
func (p *proof) endRemote() {
	if p.whole == nil {
		return
	}
	for _, x := range p.pieces {
		if _, err := p.h.S.MoveLive(p.ctx, p.h.Actor, x.id, string(hereKind), ""); err == nil {
			_, err = p.moveEnd(p.ctx, x.id)
			wstest.Must(p.t, err)
		} else if fault.CodeOf(err) != "already_there" {
			p.t.Errorf("coming home: %v", err)
		}
	}
	p.verify()
}
