package main

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/testing/testissuer"
)

// The doctor says which provider cannot be used, and why.
func TestTheDoctorAsksProviders(t *testing.T) {
	each(t, func(t *testing.T, env map[string]string, _ store.Config) {
		web := httptest.NewServer(nil)
		t.Cleanup(web.Close)
		web.Config.Handler = testissuer.New(web.URL, nil)
		env[guestEnv] = "/bin/true"
		file := filepath.Join(t.TempDir(), "config.json")
		write := func(allow string) {
			text := `{"outgoing":{"allow":[` + allow + `]},"accounts":{"providers":{
				"corp":{"name":"Corp","clientId":"x","issuer":"` + web.URL + `"},"wrong":{"name":"Wrong","clientId":"x","issuer":"` + web.URL + `/"},
				"off":{"name":"Off","enabled":false}}}}`
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(`"127.0.0.1"`)
		r := run(env, "", "doctor", "--config", file)
		want(t, r, r.code, "Corp answers", "Wrong says its issuer is", "server.publicUrl")
		write("")
		r = run(env, "", "doctor", "--config", file)
		want(t, r, r.code, "Corp could not be asked: the address is inside a network")
	})
}
