package environ_test

import (
	"strings"
	"testing"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/environ"
)

func TestNamesThatSoundSecret(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"NPM_TOKEN": true, "API_KEY": true, "OPENAI_APIKEY": true, "DB_PASSWORD": true, "SECRET": true,
		"AWS_SECRET_ACCESS_KEY": true, "BASIC_AUTH": true, "GITHUB_TOKENS": true, "GIT_AUTHOR_NAME": false, "PWD": false, "KEYBOARD": false,
		"PATH": false, "HOME": false, "PASSAGE": false} {
		if got := len(environ.Secrets(map[string]string{name: "v"})) == 1; got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestWhatNoProgramCanBeStartedWith(t *testing.T) {
	t.Parallel()
	if err := environ.Check([]string{"-v", "a b"}, map[string]string{"A_1": "x"}); err != nil {
		t.Error(err)
	}
	for what, err := range map[string]error{
		"NUL in an argument": environ.Check([]string{"a\x00"}, nil),
		"long arguments":     environ.Check([]string{strings.Repeat("a", guest.MaxArgv)}, nil),
		"a name with =":      environ.Check(nil, map[string]string{"A=B": ""}),
		"NUL in a value":     environ.Check(nil, map[string]string{"A": "\x00"}),
		"a large value":      environ.Check(nil, map[string]string{"A": strings.Repeat("a", guest.MaxEnv)}),
	} {
		if fault.CodeOf(err) != "invalid_session" {
			t.Errorf("%s: %v", what, err)
		}
	}
}
