package envd

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"time"
)

// RealAt is where a sandbox has the real daemon, when somebody compares this one with it: see e2btest.RealEnv.
const RealAt = "/.e2b/real"

// realPort is the real daemon's, in the sandbox's own network.
const realPort = "49983"

// real starts the real daemon, where the sandbox has one, and answers with it; nil = it has none.
func real(ours http.Handler) (http.Handler, error) {
	if _, err := os.Stat(RealAt); err != nil {
		return nil, nil //nolint:nilerr // it has none
	}
	cmd := exec.Command(RealAt, "-isnotfc", "-no-cgroups", "-port", realPort)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the real daemon: %w", err)
	}
	go func() { // as the real one in a machine: when it ends, so does all of the sandbox
		_ = cmd.Wait()
		os.Exit(2)
	}()
	for {
		c, err := net.Dial("tcp", "127.0.0.1:"+realPort)
		if err == nil {
			_ = c.Close()
			break
		}
		time.Sleep(10 * time.Millisecond) // whoever starts the sandbox has a limit
	}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "127.0.0.1:" + realPort})
	proxy.FlushInterval = -1
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/fake/") {
			ours.ServeHTTP(w, r)
			return
		}
		_ = http.NewResponseController(w).EnableFullDuplex()
		proxy.ServeHTTP(w, r)
	}), nil
}
