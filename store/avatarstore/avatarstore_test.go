package avatarstore_test

import (
	"testing"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/avatars"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/avatarstore"
	"github.com/parawork/parawork/store/storetest"
)

func TestMembersOfATeamSeeAPicture(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx := tenant.All(t.Context(), "a test of pictures")
		people, s := store.NewAccounts(db), avatarstore.New(db)
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, u := range []string{"usr_ada", "usr_eve"} {
			_, err := people.InsertUser(ctx, accounts.User{ID: u, Email: u + "@example.com", Name: u})
			must(err)
		}
		for _, team := range []string{"team_a", "team_b"} {
			_, err := people.InsertTeam(ctx, accounts.Team{ID: team, Slug: team, Name: team})
			must(err)
		}
		_, err := people.InsertMember(ctx, "team_a", "usr_ada", accounts.Owner, 1)
		must(err)
		for _, v := range []string{"v1", "v2"} {
			must(s.SetAvatar(ctx, "usr_ada", avatars.Picture{Version: v, Small: []byte("s" + v), Large: []byte("l" + v)}))
		}
		if raw, err := s.Avatar(ctx, "team_a", "usr_ada", "v2", true); err != nil || string(raw) != "lv2" {
			t.Errorf("the large one: %q, %v", raw, err)
		}
		if all, err := people.Members(ctx, "team_a"); err != nil || all[0].User.Avatar != "v2" {
			t.Errorf("the members: %+v, %v", all, err)
		}
		for _, ask := range [][3]string{{"team_a", "usr_ada", "v1"}, {"team_b", "usr_ada", "v2"}, {"team_a", "usr_eve", ""}} {
			if raw, err := s.Avatar(ctx, ask[0], ask[1], ask[2], false); !fault.Is(err, fault.NotFound) {
				t.Errorf("%v: %q, %v", ask, raw, err)
			}
		}
		must(s.DeleteAvatar(ctx, "usr_ada"))
		if u, err := people.UserByID(ctx, "usr_ada"); err != nil || u.Avatar != "" {
			t.Errorf("after it was removed: %+v, %v", u, err)
		}
	})
}
