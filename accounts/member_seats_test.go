package accounts_test

import (
	"context"
	"testing"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/testing/testaccounts"
)

// A member the team has no room for is not one, however they were to come in.
func TestATeamWithoutRoomTakesNobodyIn(t *testing.T) {
	t.Parallel()
	db := storetest.SQLite(t)
	full := false
	s := testaccounts.New(testaccounts.Config{Store: store.NewAccounts(db), Key: make([]byte, 32), Seats: func(_ context.Context, teamID string) error {
		if full {
			return fault.New(fault.Quota, "seats_taken", "No room in %s.", teamID)
		}
		return nil
	}})
	ctx := t.Context()
	person := func(name string) accounts.User {
		u := accounts.User{ID: "usr_" + name, Email: name + "@example.com", Name: name, PasswordHash: "!", CreatedAt: 1}
		if ok, err := store.NewAccounts(db).InsertUser(ctx, u); err != nil || !ok {
			t.Fatal(ok, err)
		}
		return u
	}
	ada, bo := person("ada"), person("bo")
	team, err := s.CreateTeam(ctx, accounts.Actor{User: ada}, "Harbour", "")
	if err != nil {
		t.Fatal(err)
	}
	full = true
	if _, err := s.PutMember(ctx, team.ID, bo.Email, accounts.Member); fault.CodeOf(err) != "seats_taken" {
		t.Errorf("added: %v", err)
	}
	if _, err := s.InviteUser(ctx, accounts.NewUser{Email: "cy@example.com", Name: "Cy"}, team.Slug, accounts.Member); fault.CodeOf(err) != "seats_taken" {
		t.Errorf("made by an operator: %v", err)
	}
	members, err := s.Members(ctx, team.ID)
	if err != nil || len(members) != 1 {
		t.Errorf("members %+v, %v", members, err)
	}
	full = false
	if _, err := s.PutMember(ctx, team.ID, bo.Email, accounts.Member); err != nil {
		t.Errorf("with room: %v", err)
	}
}
