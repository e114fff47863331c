package quota_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/parawork/parawork/billing/quota"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
)

// While several teams share the server, the time of its own isolating places counts in people's hours like that of paid ones; a team alone,
// work without isolation and members' machines are bounded by nothing. What is about money stops none of it.
func TestHoursOfAServerThatTeamsShareCount(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		for _, teams := range []int{1, 2, 7} {
			for i, kind := range []executors.Kind{"bubblewrap", "docker", "local", "runner"} {
				h := newHarness(t, db)
				h.teams, h.def = teams, "pro"
				counts := teams > 1 && i < 2
				who := fmt.Sprintf("usr_%d", i+1)
				most := int64(1)
				h.do(h.q.SetUsers(h.ctx, team, []quota.UserChange{{UserID: who, Set: map[string]*int64{quota.HoursMonth: &most}}}, who, true))
				free := func(name string) executors.UsageInterval {
					s := run(fmt.Sprintf("%s_%s_%d", name, kind, teams), who)
					s.Kind, s.PriceNano, s.Metered = kind, 0, false
					s.CPUs, s.MemoryMB = 64, 1<<20 // limits say how large it is, no plan does
					return s
				}
				first := free("first")
				_, err := h.q.SetKillSwitch(h.ctx, true, true, "the bill", "usr_op")
				h.do(err)
				h.do(h.l.Afford(h.ctx, first)) // nobody pays for it
				_, err = h.q.SetKillSwitch(h.ctx, false, false, "", "usr_op")
				h.do(err)
				h.runs(first)
				for range 60 {
					h.at += minute
					h.do(h.l.Beat(h.ctx, []string{first.SandboxID}))
				}
				want := int64(0)
				if counts {
					want = hour
				}
				st, err := h.q.UserStanding(h.ctx, team, who)
				if h.do(err); st.UsedMs != want {
					t.Fatalf("%s, %d teams: %d ms count, want %d", kind, teams, st.UsedMs, want)
				}
				err = h.l.Afford(h.ctx, free("second"))
				if counts {
					if d := h.refused(err, "quota_exceeded", "user_hours"); fmt.Sprint(d["ways"]) != "[upgrade]" {
						t.Errorf("%s: what counts as well is offered as a way on: %v", kind, d["ways"])
					}
				} else {
					h.do(err)
				}
				h.do(h.l.Stopped(h.ctx, first, 0, executors.ByServer))
				h.exec(`DELETE FROM segments`)
				h.exec(`DELETE FROM reservations`)
				h.exec(`DELETE FROM members`)
				h.exec(`DELETE FROM users`)
				h.exec(`DELETE FROM teams`)
			}
		}
	})
}

// Limits of hours suspend sandboxes on a shared server; the kill switch and the longest run of paid sandboxes do not.
func TestOnlyHoursStopWorkOnASharedServer(t *testing.T) {
	posts(t, func(t *testing.T, p *post) {
		p.kind, p.price = "bubblewrap", 0
		one, minutes := int64(1), int64(10)
		p.do(p.q.SetUsers(p.ctx, p.team, []quota.UserChange{{UserID: p.user, Set: map[string]*int64{quota.HoursMonth: &one, quota.SessionMinutes: &minutes}}}, p.user, true))
		p.start("ws_1")
		_, err := p.q.SetKillSwitch(p.ctx, true, true, "A bill", p.user)
		p.do(err)
		p.pass(50 * time.Minute)
		p.want("ws_1", "")
		_, err = p.q.SetKillSwitch(p.ctx, false, false, "", p.user)
		p.do(err)
		p.pass(11 * time.Minute)
		p.want("ws_1", quota.GraceCounting)
		p.pass(5 * time.Minute)
		p.want("ws_1", quota.GraceStopped)
	})
}
