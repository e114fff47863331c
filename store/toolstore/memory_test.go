package toolstore_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/store/toolstore"
	"github.com/parawork/parawork/tools/memory"
)

func TestMemoryRows(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx := t.Context()
		user, team := seed(t, db, "w")
		_, other := storetest.Seed(t, db)
		s := toolstore.NewMemory(db)
		fact := func(id, session, key string, expires int64) memory.Fact {
			return memory.Fact{ID: id, TeamID: team.ID, ProjectID: "p-w", SessionID: session, Key: key, Text: "text ' \" " + id, Tags: []string{"a", "b"}, UserID: user.ID, Agent: "codex", CreatedAt: 10, ExpiresAt: expires}
		}
		recalled := func(session string, now int64) string {
			t.Helper()
			facts, err := s.Facts(ctx, "p-w", session, now)
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, f := range facts {
				ids = append(ids, f.ID)
			}
			return strings.Join(ids, " ")
		}
		for _, f := range []memory.Fact{fact("a", "", "k", 0), fact("b", "", "k", 0), fact("c", "", "", 100), fact("d", "s1", "k", 0), fact("e", "", "", 0)} {
			if err := s.Remember(ctx, f, 10); err != nil {
				t.Fatal(err)
			}
		}
		facts, err := s.Facts(ctx, "p-w", "s1", 50)
		if want := fact("d", "s1", "k", 0); err != nil || len(facts) != 4 || facts[1].ID != want.ID || facts[1].Text != want.Text || !slices.Equal(facts[1].Tags, want.Tags) || facts[1].SessionID != "s1" {
			t.Errorf("%+v %v", facts, err)
		}
		if got := recalled("", 100); got != "e b" {
			t.Errorf("another session, later: %s", got)
		}
		foreign := tenant.In(ctx, other.ID)
		if facts, err := s.Facts(foreign, "p-w", "s1", 0); err != nil || len(facts) != 0 {
			t.Errorf("another team recalls %+v, %v", facts, err)
		}
		if f, err := s.Fact(ctx, "d"); err != nil || f.SessionID != "s1" || f.ProjectID != "p-w" || f.Key != "k" {
			t.Errorf("%+v %v", f, err)
		}
		if f, err := s.Fact(foreign, "d"); !fault.Is(err, fault.NotFound) {
			t.Errorf("another team reads %+v, %v", f, err)
		}
		if n, err := s.Forget(foreign, "p-w", "s1", "a", "k"); err != nil || n != 0 {
			t.Errorf("another team forgets %d, %v", n, err)
		}
		if n, err := s.Forget(ctx, "p-w", "", "d", ""); err != nil || n != 0 {
			t.Errorf("another session forgets %d, %v", n, err)
		}
		if n, err := s.Forget(ctx, "p-w", "s1", "", "k"); err != nil || n != 2 {
			t.Errorf("%d %v", n, err)
		}
		for i := range 3 {
			if err := s.Remember(ctx, fact(fmt.Sprint("f", i), "s2", "", 0), 2); (i == 2) != fault.Is(err, fault.Conflict) {
				t.Errorf("%d of 2: %v", i+1, err)
			}
		}
		lacking := func(ctx context.Context, model string) (n int) {
			t.Helper()
			facts, err := s.WithoutVector(ctx, "p-w", model, 10)
			if err != nil {
				t.Fatal(err)
			}
			return len(facts)
		}
		all := lacking(ctx, "m1")
		if err := s.SetVectors(ctx, "m1", []memory.Vector{{FactID: "e", Bytes: []byte{0, 0, 128, 63}}, {FactID: "f0", Bytes: []byte{1}}, {FactID: "gone", Bytes: []byte{1}}}); err != nil {
			t.Fatal(err)
		}
		if err := s.SetVectors(foreign, "m2", []memory.Vector{{FactID: "e", Bytes: []byte{9}}}); err != nil {
			t.Fatal(err)
		}
		if one, two, theirs := lacking(ctx, "m1"), lacking(ctx, "m2"), lacking(foreign, "m1"); one != all-2 || two != all || theirs != 0 {
			t.Errorf("of %d facts %d lack a vector, of another model %d, for another team %d", all, one, two, theirs)
		}
		if v, err := s.Vectors(ctx, "p-w", "s1", "m1"); err != nil || len(v) != 1 || v[0].FactID != "e" || string(v[0].Bytes) != "\x00\x00\x80\x3f" {
			t.Errorf("%+v %v", v, err)
		}
		if v, err := s.Vectors(foreign, "p-w", "s1", "m1"); err != nil || len(v) != 0 {
			t.Errorf("another team reads %+v, %v", v, err)
		}
		if err := s.DropExpired(ctx, 100); err != nil || recalled("", 0) != "e" {
			t.Errorf("after the drop: %s, %v", recalled("", 0), err)
		}
	})
}
