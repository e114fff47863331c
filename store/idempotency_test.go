package store_test

import (
	"testing"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
)

func TestIdempotency(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx := t.Context()
		s := store.NewIdempotency(db)
		if _, _, fresh, err := s.Begin(ctx, "usr_1", "k", "POST /x", "h"); !fresh || err != nil {
			t.Fatalf("first Begin: %v, %v", fresh, err)
		}
		if _, _, _, err := s.Begin(ctx, "usr_1", "k", "POST /x", "h"); fault.CodeOf(err) != "request_in_progress" {
			t.Errorf("while under way: %v", err)
		}
		if _, _, fresh, err := s.Begin(ctx, "usr_2", "k", "POST /x", "h"); !fresh || err != nil {
			t.Errorf("another user's same key: %v, %v", fresh, err)
		}
		if err := s.Finish(ctx, "usr_1", "k", 201, []byte(`{"id":"ws_1"}`)); err != nil {
			t.Fatal(err)
		}
		status, body, fresh, err := s.Begin(ctx, "usr_1", "k", "POST /x", "h")
		if status != 201 || string(body) != `{"id":"ws_1"}` || fresh || err != nil {
			t.Errorf("repeated: %d, %s, %v, %v", status, body, fresh, err)
		}
		for _, other := range [][2]string{{"POST /y", "h"}, {"POST /x", "other"}} {
			if _, _, _, err := s.Begin(ctx, "usr_1", "k", other[0], other[1]); fault.CodeOf(err) != "idempotency_key_reused" {
				t.Errorf("for another request: %v", err)
			}
		}
		if err := s.Forget(ctx, "usr_1", "k"); err != nil {
			t.Fatal(err)
		}
		if status, _, _, _ := s.Begin(ctx, "usr_1", "k", "POST /x", "h"); status != 201 {
			t.Error("Forget forgot an answer that was kept")
		}
		if err := s.Forget(ctx, "usr_2", "k"); err != nil {
			t.Fatal(err)
		}
		if _, _, fresh, err := s.Begin(ctx, "usr_2", "k", "POST /x", "h"); !fresh || err != nil {
			t.Errorf("after Forget: %v, %v", fresh, err)
		}
		// A claim whose server died is taken over.
		old := time.Now().Add(-time.Hour).UnixMilli()
		if _, err := db.Exec(ctx, `UPDATE idempotency_keys SET created_at = ? WHERE user_id = ?`, old, "usr_2"); err != nil {
			t.Fatal(err)
		}
		if _, _, fresh, err := s.Begin(ctx, "usr_2", "k", "POST /x", "h"); !fresh || err != nil {
			t.Errorf("a stale claim: %v, %v", fresh, err)
		}
		if n, err := s.Drop(ctx, time.Now().Add(time.Hour).UnixMilli()); n != 2 || err != nil {
			t.Errorf("Drop = %d, %v", n, err)
		}
	})
}
