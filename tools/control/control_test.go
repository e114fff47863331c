package control_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/tools/control"
)

var ada, bob = control.Person{ID: "usr_ada", Name: "Ada"}, control.Person{ID: "usr_bob", Name: "Bob"}

func want(t *testing.T, err error, code string) {
	t.Helper()
	if fault.CodeOf(err) != code {
		t.Fatalf("got %v, want %q", err, code)
	}
}

func TestOnePersonOrAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reasons []control.Reason
		l := control.New(control.Config{What: "browser", Changed: func(_, _ control.State, why control.Reason) { reasons = append(reasons, why) }})
		defer l.Come(ada.ID)()
		want(t, l.Agent(), "")
		want(t, l.Human(ada.ID), "control_not_taken")
		want(t, l.Give(ada.ID, control.Gave), "control_not_taken")
		want(t, l.Take(ada, false), "")
		want(t, l.Take(ada, false), "")
		want(t, l.Human(ada.ID), "")
		want(t, l.Human(bob.ID), "control_taken")
		want(t, l.Take(bob, false), "control_taken")
		want(t, l.Give(bob.ID, control.Gave), "control_taken")
		err := l.Agent()
		want(t, err, "control_taken")
		if !strings.Contains(err.Error(), "Ada has taken over the browser since 00:00") {
			t.Errorf("an agent reads %q", err)
		}
		waited := make(chan error)
		go func() { waited <- l.Await(t.Context()) }()
		synctest.Wait()
		want(t, l.Take(bob, true), "")
		want(t, l.Human(ada.ID), "control_taken")
		select {
		case <-waited:
			t.Fatal("the agent went on while a person had control")
		default:
		}
		want(t, l.Give(bob.ID, control.Gave), "")
		want(t, <-waited, "")
		want(t, l.Agent(), "")
		if len(reasons) != 3 || reasons[2] != control.Gave {
			t.Errorf("changes %v", reasons)
		}
	})
}

func TestControlGoesBackWhenItsHolderIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := control.New(control.Config{Gone: 10 * time.Second})
		first, second := l.Come(ada.ID), l.Come(ada.ID)
		want(t, l.Take(ada, false), "")
		first()
		first() // twice is once
		time.Sleep(time.Minute)
		want(t, l.Human(ada.ID), "")
		second()
		time.Sleep(9 * time.Second)
		back := l.Come(ada.ID)
		time.Sleep(time.Minute)
		want(t, l.Human(ada.ID), "")
		back()
		ctx, cancel := context.WithTimeout(t.Context(), 11*time.Second)
		defer cancel()
		want(t, l.Await(ctx), "")

		want(t, l.Take(bob, false), "") // by a script, without a connection
		time.Sleep(11 * time.Second)
		want(t, l.Agent(), "")
	})
}
