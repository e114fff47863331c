package vault_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/vault"
	"github.com/parawork/parawork/internal/fault"
)

// memory keeps secrets in memory.
type memory struct {
	rows   map[string]row
	broken error
}

type row struct {
	accounts.Secret
	sealed []byte
}

func (m *memory) InsertSecret(_ context.Context, k accounts.Secret, sealed []byte) error {
	m.rows[k.ID] = row{k, sealed}
	return m.broken
}

func (m *memory) Secret(_ context.Context, id string) (accounts.Secret, []byte, error) {
	r, ok := m.rows[id]
	if m.broken != nil {
		return accounts.Secret{}, nil, m.broken
	}
	if !ok {
		return accounts.Secret{}, nil, fault.New(fault.NotFound, "not_found", "There is no such secret.")
	}
	return r.Secret, r.sealed, nil
}

func (m *memory) DeleteSecret(_ context.Context, id string) error {
	delete(m.rows, id)
	return nil
}

func key(b byte) []byte { return bytes.Repeat([]byte{b}, vault.KeyBytes) }

func newVault(m *memory) *vault.Vault {
	return vault.New(vault.Config{Store: m, Key: key(1), Now: func() time.Time { return time.UnixMilli(5000) }})
}

func newMemory() *memory { return &memory{rows: map[string]row{}} }

func wantCode(t *testing.T, what string, err error, code string) {
	t.Helper()
	if fault.CodeOf(err) != code || code == "" && err != nil {
		t.Errorf("%s: %v (code %q), want the code %q", what, err, fault.CodeOf(err), code)
	}
}

func TestValuesOfTheInstanceOpenForTheirPurposeOnly(t *testing.T) {
	t.Parallel()
	v := newVault(nil)
	for _, value := range []string{"", "a secret", strings.Repeat("long ", 10_000), "\x00\xff"} {
		sealed, err := v.Seal("mail", value)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := v.Unseal("mail", sealed); err != nil || got != value {
			t.Errorf("%.20q comes back as %.20q, %v", value, got, err)
		}
		again, err := v.Seal("mail", value)
		if err != nil || again == sealed {
			t.Errorf("the same value is sealed alike twice: who reads the database sees that two are equal (%v)", err)
		}
		for what, open := range map[string]func() (string, error){
			"another purpose": func() (string, error) { return v.Unseal("stripe", sealed) },
			"another key":     func() (string, error) { return vault.New(vault.Config{Key: key(2)}).Unseal("mail", sealed) },
			"no key":          func() (string, error) { return vault.New(vault.Config{}).Unseal("mail", sealed) },
			"its beginning":   func() (string, error) { return v.Unseal("mail", sealed[:len(sealed)/2/4*4]) },
			"no base64":       func() (string, error) { return v.Unseal("mail", "%"+sealed) },
			"nothing":         func() (string, error) { return v.Unseal("mail", "") },
		} {
			got, err := open()
			wantCode(t, what, err, "secret_unreadable")
			if got != "" {
				t.Errorf("%s opens %.20q", what, got)
			}
		}
	}
}

func TestWithoutAKeyNothingIsSealed(t *testing.T) {
	t.Parallel()
	for _, k := range [][]byte{nil, {}, key(1)[:31], append(key(1), 1)} {
		m := newMemory()
		v := vault.New(vault.Config{Store: m, Key: k})
		if s, err := v.Seal("mail", "a secret"); !errors.Is(err, vault.ErrNoKey) || s != "" {
			t.Errorf("%d bytes: sealed %q, %v", len(k), s, err)
		}
		if d, err := v.Derive("cookies"); !errors.Is(err, vault.ErrNoKey) || d != nil {
			t.Errorf("%d bytes: derived, %v", len(k), err)
		}
		if _, err := v.KeepSecret(t.Context(), accounts.OfUser("ada"), "token", "a secret", "ada"); !errors.Is(err, vault.ErrNoKey) || len(m.rows) != 0 {
			t.Errorf("%d bytes: kept %v, %v", len(k), m.rows, err)
		}
	}
}

func TestNothingIsSealedWithoutRandomness(t *testing.T) {
	t.Parallel()
	m := newMemory()
	v := vault.New(vault.Config{Store: m, Key: key(1), Rand: iotest.ErrReader(errors.New("no entropy"))})
	if _, err := v.KeepSecret(t.Context(), accounts.OfUser("ada"), "token", "a secret", "ada"); err == nil || len(m.rows) != 0 {
		t.Errorf("kept %v, %v", m.rows, err)
	}
	if _, err := v.Seal("mail", "a secret"); err == nil {
		t.Error("sealed")
	}
}

func TestKeysOfPurposesAreApart(t *testing.T) {
	t.Parallel()
	v := newVault(nil)
	one, err := v.Derive("cookies")
	if err != nil || len(one) != 32 || bytes.Equal(one, key(1)) {
		t.Fatalf("%x, %v", one, err)
	}
	if again, err := newVault(nil).Derive("cookies"); err != nil || !bytes.Equal(again, one) {
		t.Errorf("another server of the same key derives %x, %v", again, err)
	}
	if other, err := v.Derive("links"); err != nil || bytes.Equal(other, one) {
		t.Errorf("another purpose: %x, %v", other, err)
	}
	if p := vault.Print(key(1)); p != vault.Print(key(1)) || p == vault.Print(key(2)) || strings.Contains(p, "0101") {
		t.Errorf("print %s", p)
	}
}

func TestASecretOpensForItsHolderAndPurpose(t *testing.T) {
	t.Parallel()
	m := newMemory()
	v, ctx := newVault(m), t.Context()
	ada := accounts.OfUser("ada")
	k, err := v.KeepSecret(ctx, ada, "github", "ghp_0123456789abcdef", "bob")
	if err != nil || k.ID == "" || k.Holder != ada || k.Name != "github" || k.CreatedBy != "bob" || k.CreatedAt != 5000 || k.UpdatedAt != 5000 || k.LastFour != "cdef" {
		t.Fatalf("%+v, %v", k, err)
	}
	if bytes.Contains(m.rows[k.ID].sealed, []byte("0123456789")) {
		t.Error("it lies there in clear")
	}
	if got, err := v.OpenSecret(ctx, k.ID, ada, "github"); err != nil || got != "ghp_0123456789abcdef" {
		t.Errorf("%q, %v", got, err)
	}
	other, err := v.KeepSecret(ctx, ada, "github", "another", "ada")
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what, id string, o accounts.Holder, name string) {
		t.Helper()
		got, err := v.OpenSecret(ctx, id, o, name)
		wantCode(t, what, err, "secret_unreadable")
		if got != "" {
			t.Errorf("%s: %q", what, got)
		}
	}
	refused("another user", k.ID, accounts.OfUser("bob"), "github")
	refused("a team of the same name", k.ID, accounts.OfTeam("ada"), "github")
	refused("another purpose", k.ID, ada, "gitlab")
	m.rows[other.ID] = row{m.rows[other.ID].Secret, m.rows[k.ID].sealed}
	refused("its bytes in another row", other.ID, ada, "github")
	for _, version := range []int{0, 1, 99} {
		later := m.rows[k.ID]
		later.KeyVersion = version
		m.rows[k.ID] = later
		refused("an unknown way of sealing", k.ID, ada, "github")
	}
	if _, err := v.OpenSecret(ctx, "none", ada, "github"); !fault.Is(err, fault.NotFound) {
		t.Errorf("none: %v", err)
	}
	if err := v.DropSecret(ctx, k.ID); err != nil || len(m.rows) != 1 {
		t.Errorf("dropped: %v, %v", m.rows, err)
	}
}

// What a key ends with is shown to recognise it by; of what is short, or no plain text, nothing is.
func TestWhatIsShownOfASecret(t *testing.T) {
	t.Parallel()
	v := newVault(newMemory())
	for value, want := range map[string]string{
		"0123456789abcdef":          "cdef",
		" 0123456789abcdef\n":       "cdef",
		"0123456789abcde":           "",
		"":                          "",
		"a pass phrase with a z z ": "",
		"0123456789abcdefgh\x00i":   "",
		"0123456789abcdefghié":      "",
		"0123456789abcdefgh ij":     "",
	} {
		k, err := v.KeepSecret(t.Context(), accounts.OfUser("ada"), "n", value, "ada")
		if err != nil || k.LastFour != want {
			t.Errorf("%q shows %q, %v; want %q", value, k.LastFour, err, want)
		}
	}
}

func TestSecretsOfTeams(t *testing.T) {
	t.Parallel()
	m := newMemory()
	v, ctx := newVault(m), t.Context()
	id, err := v.KeepTeamSecret(ctx, "team", "registry", "password", "ada")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := v.TeamSecret(ctx, id, "team", "registry"); err != nil || got != "password" {
		t.Errorf("%q, %v", got, err)
	}
	_, err = v.TeamSecret(ctx, id, "other", "registry")
	wantCode(t, "another team", err, "secret_unreadable")
	if err := v.DropTeamSecret(ctx, id, "other"); err != nil || len(m.rows) != 1 {
		t.Errorf("another team drops it: %v, %v", m.rows, err)
	}
	m.broken = errors.New("the disk is gone")
	if err := v.DropTeamSecret(ctx, id, "team"); !errors.Is(err, m.broken) || len(m.rows) != 1 {
		t.Errorf("where it cannot be read: %v", err)
	}
	if _, err := v.KeepTeamSecret(ctx, "team", "registry", "password", "ada"); !errors.Is(err, m.broken) {
		t.Errorf("where it cannot be kept: %v", err)
	}
	m.broken, m.rows = nil, map[string]row{id: m.rows[id]}
	for range 2 { // again: nothing to drop
		if err := v.DropTeamSecret(ctx, id, "team"); err != nil || len(m.rows) != 0 {
			t.Errorf("its own: %v, %v", m.rows, err)
		}
	}
}

func TestResealAndOpensRefuseWhatIsNotSealed(t *testing.T) {
	t.Parallel()
	sealed, err := newVault(nil).Seal("mail", "the value")
	if err != nil {
		t.Fatal(err)
	}
	after, err := vault.Reseal(key(1), key(2), false, []byte(sealed))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := vault.New(vault.Config{Key: key(2)}).Unseal("mail", string(after)); err != nil || got != "the value" {
		t.Errorf("with the next key: %q, %v", got, err)
	}
	raw, err := base64.StdEncoding.DecodeString(string(after))
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		key    []byte
		raw    bool
		sealed []byte
		want   bool
	}{
		"its key":                    {key(2), false, after, true},
		"its key, raw":               {key(2), true, raw, true},
		"another key":                {key(1), false, after, false},
		"nothing":                    {key(1), true, nil, false},
		"no base64":                  {key(1), false, []byte("%"), false},
		"an unknown form":            {key(1), true, []byte{9, 1, 2, 3}, false},
		"a value with another form":  {key(2), true, append([]byte{1}, raw[1:]...), false},
		"a key of another length":    {key(1)[:5], false, after, false},
		"the first byte and no more": {key(2), true, []byte{2}, false},
	} {
		if got := vault.Opens(c.key, c.raw, c.sealed); got != c.want {
			t.Errorf("%s: %t, want %t", what, got, c.want)
		}
	}
	if _, err := vault.Reseal(key(1), key(2)[:4], false, []byte(sealed)); !errors.Is(err, vault.ErrNoKey) {
		t.Errorf("resealed with a key of the wrong length: %v", err)
	}
}

func TestTheFileOfTheKey(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "made", "secret.key")
	if _, err := vault.ReadKey(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before it is made: %v", err)
	}
	k, err := vault.OpenKey(path)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := vault.OpenKey(path); err != nil || !bytes.Equal(again, k) {
		t.Errorf("opened again it is another one, %v", err)
	}
	if st, err := os.Stat(filepath.Dir(path)); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("its folder: %v, %v", st.Mode(), err)
	}
	for _, n := range []int{0, vault.KeyBytes - 1, vault.KeyBytes + 1, 5000} {
		if err := os.WriteFile(path, make([]byte, n), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := vault.OpenKey(path)
		wantCode(t, "a file of another length", err, "key_damaged")
		if got != nil {
			t.Errorf("%d bytes are a key", n)
		}
		if st, err := os.Stat(path); err != nil || st.Size() != int64(n) {
			t.Errorf("the damaged file was replaced: %v, %v", st.Size(), err)
		}
	}
	if err := os.WriteFile(path, k, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []fs.FileMode{0o640, 0o604, 0o620, 0o601} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, err := vault.ReadKey(path)
		wantCode(t, mode.String(), err, "key_readable")
		if err == nil || !strings.Contains(err.Error(), "chmod 600 "+path) {
			t.Errorf("it does not say what to do: %v", err)
		}
	}
}

func TestAKeyTakesThePlaceOfAnother(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "secret.key")
	old, err := vault.OpenKey(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := vault.PlaceKey(path); err == nil {
		t.Error("a key that is not there was placed")
	}
	if err := vault.DropNextKey(path); err != nil {
		t.Errorf("dropping one that is not there: %v", err)
	}
	if k, err := vault.ReadKey(path); err != nil || !bytes.Equal(k, old) {
		t.Errorf("the key is another one, %v", err)
	}
	next, err := vault.OpenKey(vault.NextKey(path))
	if err != nil || bytes.Equal(next, old) {
		t.Fatalf("the next key: %v", err)
	}
	if err := vault.DropNextKey(path); err != nil {
		t.Fatal(err)
	}
	if _, err := vault.ReadKey(vault.NextKey(path)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("dropped: %v", err)
	}
	if next, err = vault.OpenKey(vault.NextKey(path)); err != nil {
		t.Fatal(err)
	}
	if err := vault.PlaceKey(path); err != nil {
		t.Fatal(err)
	}
	if k, err := vault.ReadKey(path); err != nil || !bytes.Equal(k, next) {
		t.Errorf("placed: %v", err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
}
