package git_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces/git"
)

func TestURLsOfRepositories(t *testing.T) {
	t.Parallel()
	all := []string{"https", "http", "ssh", "git", "file"}
	for raw, want := range map[string]git.Remote{
		"https://github.com/you/project.git":       {URL: "https://github.com/you/project.git", Name: "project"},
		"  HTTPS://github.com/you/project/ ":       {URL: "https://github.com/you/project/", Name: "project"},
		"https://tok3n@github.com/you/project":     {URL: "https://github.com/you/project", Token: "tok3n", Name: "project"},
		"https://you:tok3n@github.com/you/project": {URL: "https://github.com/you/project", Username: "you", Token: "tok3n", Name: "project"},
		"ssh://git@host:2222/a/b.git":              {URL: "ssh://git@host:2222/a/b.git", Name: "b"},
		"git@github.com:you/project.git":           {URL: "git@github.com:you/project.git", Name: "project"},
		"host:project":                             {URL: "host:project", Name: "project"},
		"http://[::1]:8080/a":                      {URL: "http://[::1]:8080/a", Name: "a"},
		"file:///srv/git/../a.git":                 {URL: "file:///srv/a.git", Name: "a", File: "/srv/a.git"},
		"https://host/.git":                        {URL: "https://host/.git", Name: "project"},
	} {
		if got, err := git.ParseRemote(raw, all); err != nil || got != want {
			t.Errorf("%q: %+v, %v", raw, got, err)
		}
	}
	for raw, code := range map[string]string{
		"":                                     "url_invalid",
		"-oProxyCommand=x":                     "url_invalid",
		"--upload-pack=touch /tmp/x":           "url_invalid",
		"ext::sh -c touch% /tmp/x":             "url_invalid",
		"ext::sh":                              "url_invalid",
		"fd::17":                               "url_invalid",
		"https://host":                         "url_invalid",
		"https://host/":                        "url_invalid",
		"https:///path":                        "url_invalid",
		"https://host/a?b":                     "url_invalid",
		"https://host/a#b":                     "url_invalid",
		"https://host/a\nb":                    "url_invalid",
		"https://host/a b":                     "url_invalid",
		"https://host/\xff":                    "url_invalid",
		"https://" + strings.Repeat("a", 2048): "url_invalid",
		"ssh://-oProxyCommand=x/a":             "url_invalid",
		"ssh://git@-oProxyCommand=x/a":         "url_invalid",
		"ssh://$(touch%20x)/a":                 "url_invalid",
		"ssh://host;x/a":                       "url_invalid",
		"ssh://-l@host/a":                      "url_invalid",
		"ssh://you:secret@host/a":              "url_invalid",
		"git@host:-oProxyCommand=x":            "url_invalid",
		"-git@host:a":                          "url_invalid",
		"git@ho`st:a":                          "url_invalid",
		"host::a":                              "url_invalid",
		"http://tok3n@host/a":                  "url_invalid",
		"file://host/a":                        "url_invalid",
		"file://you@/a":                        "url_invalid",
		"/srv/git/a":                           "url_invalid",
		"ftp://host/a":                         "protocol_not_allowed",
		"javascript://host/a":                  "protocol_not_allowed",
	} {
		got, err := git.ParseRemote(raw, all)
		if fault.CodeOf(err) != code || got != (git.Remote{}) {
			t.Errorf("%.60q: %+v, %v", raw, got, err)
		}
		if err != nil && (strings.Contains(err.Error(), "tok3n") || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%q: its words show the credential: %v", raw, err)
		}
	}
	for _, raw := range []string{"git@host:a", "ssh://host/a", "http://host/a", "file:///a"} {
		if _, err := git.ParseRemote(raw, []string{"https"}); fault.CodeOf(err) != "protocol_not_allowed" || !strings.Contains(err.Error(), "https://") {
			t.Errorf("%s where only https is allowed: %v", raw, err)
		}
	}
}

func TestNamesOfProjects(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{" a name ": "a name", "ä": "ä", strings.Repeat("ä", 200): strings.Repeat("ä", 200)} {
		if got, err := git.CheckName(raw, "project"); err != nil || got != want {
			t.Errorf("%q: %q, %v", raw, got, err)
		}
	}
	for raw, code := range map[string]string{" \t": "name_missing", "a\nb": "name_invalid", "a\x00": "name_invalid", "\xff": "name_invalid", "abc\u202egnp.exe": "name_invalid", strings.Repeat("ä", 201): "name_too_long"} {
		if got, err := git.CheckName(raw, "project"); fault.CodeOf(err) != code || got != "" {
			t.Errorf("%.20q: %q, %v", raw, got, err)
		}
	}
	for p, want := range map[string]string{"/srv/a.git": "a", "/srv/a.git/": "a", "a": "a", "": "project", "/": "project", "..": "project", ".git": "project"} {
		if got := git.RepoName(p); got != want {
			t.Errorf("%q: %q", p, got)
		}
	}
	if err := git.CheckPatterns([]string{".env", "*.local", "config/secrets.json", "certs/"}); err != nil {
		t.Error(err)
	}
	for _, bad := range [][]string{{"../x"}, {""}, slices.Repeat([]string{".env"}, 1000)} {
		if err := git.CheckPatterns(bad); fault.CodeOf(err) != "pattern_invalid" {
			t.Errorf("%.3q: %v", bad, err)
		}
	}
}

// What git says of a merge that conflicts, as git merge-tree -z prints it.
func TestConflictsAreRead(t *testing.T) {
	t.Parallel()
	stage := func(n, path string) string {
		return "100644 0123456789012345678901234567890123456789 " + n + "\t" + path + "\x00"
	}
	out := stage("1", "both") + stage("2", "both") + stage("3", "both") + stage("1", "gone") + stage("2", "gone") + stage("2", "new") + stage("3", "new") + stage("3", "quiet") + "\x00" +
		"1\x00both\x00Auto-merging\x00Auto-merging both\n\x00" + "1\x00both\x00CONFLICT (contents)\x00CONFLICT (content): in both\n\x00" +
		"2\x00gone\x00other\x00CONFLICT (modify/delete)\x00gone\n\x00" + "1\x00new\x00CONFLICT (add/add)\x00new\n\x00"
	var got []string
	for _, c := range git.ParseConflicts(out) {
		got = append(got, strings.Join([]string{c.Path, c.Kind, c.Ours, c.Theirs}, " "))
	}
	if want := []string{"both content changed changed", "gone modify/delete changed deleted", "new add/add added added", "quiet content  added"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, odd := range []string{"", "\x00", "\x00\x00", "\x00x\x00", "\x00-1\x00a\x00", "\x009\x00a\x00CONFLICT (contents)\x00", "no tab\x00\x00", "\x001"} { // read as far as it goes
		if list := git.ParseConflicts(odd); len(list) != 0 {
			t.Errorf("%q: %+v", odd, list)
		}
	}
}

func TestConflictHunks(t *testing.T) {
	t.Parallel()
	const ours, theirs = "aaaa", "bbbb"
	place := func(a, b string) string {
		return "<<<<<<< " + ours + "\n" + a + "=======\n" + b + ">>>>>>> " + theirs + "\n"
	}
	text := "one\n" + place("a\n", "b\n") + "<<<<<<< not a mark\n=======\n>>>>>>> nor this\n" + "<<<<<<< " + ours + ":old name\nx\n||||||| base\nwas\n=======\ny\n>>>>>>> " + theirs + ":new name\n"
	hunks, more := git.ConflictHunks(text, ours, theirs)
	if len(hunks) != 2 || more != 0 || hunks[0].Line != 2 || hunks[0].Ours != "a\n" || hunks[0].Theirs != "b\n" || hunks[1].Ours != "x\n" || hunks[1].Theirs != "y\n" || hunks[1].Line != 10 {
		t.Errorf("%+v, %d", hunks, more)
	}
	if hunks, more := git.ConflictHunks(strings.Repeat(place("a\n", "b\n"), 23), ours, theirs); len(hunks) != 20 || more != 3 {
		t.Errorf("%d places, %d more", len(hunks), more)
	}
	if hunks, _ := git.ConflictHunks(place(strings.Repeat("x", 1000)+"\n", strings.Repeat(strings.Repeat("y", 99)+"\n", 1000)), ours, theirs); len(hunks) != 1 || len(hunks[0].Theirs) > 16<<10 || len(hunks[0].Ours) != 1001 {
		t.Error("a place has no bound")
	}
	for what, none := range map[string]string{"binary": "\xff" + place("a\n", "b\n"), "of other commits": strings.ReplaceAll(place("a\n", "b\n"), ours, "cccc"), "cut": place("a\n", "b\n")[:20], "a longer commit": strings.ReplaceAll(place("a\n", "b\n"), ours, ours+"a")} {
		if hunks, more := git.ConflictHunks(none, ours, theirs); len(hunks) != 0 || more != 0 {
			t.Errorf("%s: %+v", what, hunks)
		}
	}
}

func TestWhatGitPrints(t *testing.T) {
	t.Parallel()
	oid := strings.Repeat("a", 40)
	list := git.ParseRaw(":100644 100755 " + oid + " " + oid + " M\x00a b\x00:100644 100644 " + oid + " " + oid + " R090\x00old\x00new\x00:100644 000000 " + oid + " " + oid + " D\x00gone\x00")
	var got []string
	for _, r := range list {
		got = append(got, r.Status+" "+r.Path)
	}
	if !slices.Equal(got, []string{"M a b", "R090 new", "D gone"}) || list[0].OldMode != "100644" || list[0].NewMode != "100755" || list[0].NewOID != oid {
		t.Errorf("%+v", list)
	}
	for _, odd := range []string{"", "\x00\x00", "x\x00y\x00", ":1 2 3\x00a\x00", ":100644 100644 a b R100\x00only one\x00"} {
		if list := git.ParseRaw(odd); len(list) > 1 {
			t.Errorf("%q: %+v", odd, list)
		}
	}
	f, err := git.TreeRecord("100755 blob " + oid + "      12\ta\tb")
	if err != nil || f.Path != "a\tb" || f.Mode != 0o100755 || f.Size != 12 || f.OID != oid {
		t.Errorf("%+v, %v", f, err)
	}
	if f, err := git.TreeRecord("160000 commit " + oid + "       -\tsub"); err != nil || f.Size != 0 || f.Mode != 0o160000 {
		t.Errorf("%+v, %v", f, err)
	}
	for _, odd := range []string{"", "100644 blob x", "100644 blob " + oid + " 1", "1009 blob " + oid + " 1\ta"} {
		if f, err := git.TreeRecord(odd); err == nil {
			t.Errorf("%q: %+v", odd, f)
		}
	}
	for id, want := range map[string]bool{oid: true, strings.Repeat("0", 64): true, oid[1:]: false, strings.ToUpper(oid): false, "": false, oid[1:] + "g": false, "--" + oid[2:]: false} {
		if git.IsCommitID(id) != want {
			t.Errorf("%q: %v", id, !want)
		}
	}
	for _, c := range []struct {
		p, root string
		want    bool
	}{{"/a", "/a", true}, {"/a/b", "/a", true}, {"/ab", "/a", false}, {"/b", "/", true}, {"/", "/a", false}} {
		if git.Below(c.p, c.root) != c.want {
			t.Errorf("%+v", c)
		}
	}
}

func TestArgumentsComeInBatches(t *testing.T) {
	t.Parallel()
	paths := slices.Repeat([]string{strings.Repeat("x", 1000)}, 2000)
	var n, batches int
	if err := git.EachBatch(paths, func(some []string) error {
		if size := len(strings.Join(some, "\x00")); size > git.MaxArgs {
			t.Errorf("%d bytes", size)
		}
		n, batches = n+len(some), batches+1
		return nil
	}); err != nil || n != 2000 || batches < 3 {
		t.Errorf("%d in %d, %v", n, batches, err)
	}
	if err := git.EachBatch([]string{strings.Repeat("x", git.MaxArgs+1), "a"}, func(some []string) error { n -= len(some); return nil }); err != nil || n != 1998 {
		t.Errorf("one that is too long alone: %v", err)
	}
	stop := errors.New("enough")
	if err := git.EachBatch(paths, func([]string) error { return stop }); !errors.Is(err, stop) {
		t.Error(err)
	}
}

// A bundle has the files that exist: no link is followed, and only regular files and links are included.
func TestWhatIsSentToASandbox(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.MkdirAll(at("folder/deep"), 0o755), os.WriteFile(at("folder/deep/f"), []byte("text"), 0o640), os.Symlink("nowhere", at("folder/link")), os.Symlink(outside, at("way")),
		os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600), unix.Mkfifo(at("folder/pipe"), 0o600), os.WriteFile(at("one"), []byte("shared"), 0o600), os.Link(at("one"), at("two"))); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	send := func(owner int, fn func(a *git.Archive) error) (got []string) {
		t.Helper()
		var buf bytes.Buffer
		a := &git.Archive{Ctx: t.Context(), Tw: tar.NewWriter(&buf), Owner: owner}
		if err := errors.Join(fn(a), a.Tw.Close()); err != nil {
			t.Fatal(err)
		}
		for r := tar.NewReader(&buf); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				return got
			}
			b, rerr := io.ReadAll(r)
			if err != nil || rerr != nil {
				t.Fatal(err, rerr)
			}
			got = append(got, strings.TrimSpace(strings.Join([]string{h.Name, h.Linkname, string(b)}, " ")))
		}
	}
	if got := send(-1, func(a *git.Archive) error { return a.Folder(root, "folder", "tree/") }); !slices.Equal(got, []string{"tree/folder/", "tree/folder/deep/", "tree/folder/deep/f  text", "tree/folder/link nowhere"}) {
		t.Errorf("%q", got)
	}
	if got := send(-1, func(a *git.Archive) error {
		return errors.Join(a.File(root, "way/secret", ""), a.File(root, "none", ""), a.File(root, "one/below", ""), a.File(root, "folder", ""), a.File(root, "way", ""), a.Text("plan", "p"))
	}); !slices.Equal(got, []string{"way " + outside, "plan  p"}) {
		t.Errorf("%q", got)
	}
	if got := send(os.Getuid()+1, func(a *git.Archive) error {
		return errors.Join(a.File(root, "one", ""), a.File(root, "folder/deep/f", ""))
	}); !slices.Equal(got, []string{"folder/deep/f  text"}) {
		t.Errorf("with a file that has names elsewhere and is another's: %q", got)
	}
	if got := git.FolderBytes(root); got != 4+6+6 {
		t.Errorf("%d bytes", got)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("nobody waits"))
	a := &git.Archive{Ctx: ctx, Tw: tar.NewWriter(io.Discard), Owner: -1}
	for _, err := range []error{a.File(root, "one", ""), a.Folder(root, "folder", "")} {
		if err == nil || err.Error() != "nobody waits" {
			t.Errorf("%v", err)
		}
	}
}
