package executors

import "testing"

func TestInsideRoot(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		root, cwd, want string
		ok              bool
	}{
		{"/w", "", "", true}, {"/w", ".", "", true}, {"/w", "a/b", "a/b", true}, {"/w", "./a//b/", "a/b", true},
		{"/w", "/w", "", true}, {"/w", "/w/", "", true}, {"/w", "/w/a", "a", true}, {"/w", "a/../b", "b", true},
		{"/w", "/", "", false}, {"/w", "/wx", "", false}, {"/w", "/w/../x", "", false}, {"/w", "..", "", false},
		{"/w", "a/../../b", "", false}, {"/w", "/etc", "", false}, {"/w", "..a", "..a", true},
		{"/", "/etc", "etc", true}, {"", "/etc", "", false},
	} {
		got, err := insideRoot(test.root, test.cwd)
		if got != test.want || (err == nil) != test.ok {
			t.Errorf("%q in %q: %q, %v", test.cwd, test.root, got, err)
		}
	}
}
