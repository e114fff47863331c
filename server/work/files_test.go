package work

import "testing"

func TestDisposition(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"a/b.txt":       `attachment; filename=b.txt`,
		"a b.txt":       `attachment; filename="a b.txt"`,
		"x\"; y=\n.sh":  `attachment; filename="x_; y=_.sh"`,
		"дом.txt":       `attachment; filename*=utf-8''%D0%B4%D0%BE%D0%BC.txt`,
		"\xff":          `attachment; filename=_`,
		"..\\evil.html": `attachment; filename=.._evil.html`,
	} {
		if got := disposition(path); got != want {
			t.Errorf("%q: %s, want %s", path, got, want)
		}
	}
}
