package kubetest_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/parawork/parawork/executors/kubernetes/kubetest"
)

// cluster is one to ask: the stand-in or a real one.
type cluster struct {
	t     *testing.T
	url   string
	token string
	tls   *tls.Config
	http  *http.Client
	image string

	standIn *kubetest.Server // nil = a real one
}

var (
	serverOf = regexp.MustCompile(`server: "([^"]+)"`)
	tokenOf  = regexp.MustCompile(`token: "([^"]+)"`)
	caOf     = regexp.MustCompile(`certificate-authority-data: ([A-Za-z0-9+/=]+)`)
)

// clusterOf is the one that a kubeconfig of these tests leads to.
func clusterOf(t *testing.T, kubeconfig, image string) *cluster {
	t.Helper()
	ca, err := base64.StdEncoding.DecodeString(caOf.FindStringSubmatch(kubeconfig)[1])
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	c := &cluster{t: t, url: serverOf.FindStringSubmatch(kubeconfig)[1], token: tokenOf.FindStringSubmatch(kubeconfig)[1], tls: &tls.Config{RootCAs: pool}, image: image}
	c.http = &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: c.tls}}
	t.Cleanup(c.http.CloseIdleConnections)
	return c
}

const (
	pods     = "/api/v1/namespaces/parawork/pods"
	claims   = "/api/v1/namespaces/parawork/persistentvolumeclaims"
	policies = "/apis/networking.k8s.io/v1/namespaces/parawork/networkpolicies"
)

// ask sends a request and returns the status and the answer.
func (c *cluster) ask(method, path string, body any) (int, map[string]any) {
	c.t.Helper()
	code, out, err := c.try(c.t.Context(), method, path, body)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	return code, out
}

func (c *cluster) try(ctx context.Context, method, path string, body any) (int, map[string]any, error) {
	var r io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		r = strings.NewReader(b)
	default:
		text, err := json.Marshal(b)
		if err != nil {
			return 0, nil, err
		}
		r = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, r)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	res, err := c.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, nil, err
	}
	var out map[string]any
	if json.Unmarshal(b, &out) != nil {
		out = map[string]any{"text": string(b)}
	}
	return res.StatusCode, out, nil
}

// object is JSON in short.
type object = map[string]any

// pod is one that the restricted standard takes, and that change makes another.
func (c *cluster) pod(name, script string, change func(spec, container object)) object {
	container := object{"name": "c", "image": c.image, "command": []any{"/bin/sh", "-c", script}, "resources": object{"requests": object{"cpu": "10m"}},
		"securityContext": object{"allowPrivilegeEscalation": false, "capabilities": object{"drop": []any{"ALL"}}}}
	spec := object{"restartPolicy": "Never", "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 2, "containers": []any{container},
		"securityContext": object{"runAsNonRoot": true, "runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000, "seccompProfile": object{"type": "RuntimeDefault"}}}
	if change != nil {
		change(spec, container)
	}
	return object{"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": name, "labels": object{"app": name}}, "spec": spec}
}

// at finds what a path of keys and positions leads to.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(object)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

// until asks for a pod until it is as wanted.
func (c *cluster) until(name string, ok func(code int, pod object) bool) object {
	c.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		code, o := c.ask(http.MethodGet, pods+"/"+name, nil)
		if ok(code, o) {
			return o
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("pod %s stays so: %d %v", name, code, at(o, "status"))
		}
		time.Sleep(10 * time.Millisecond) // one look is cheaper than a watch
	}
}

func (c *cluster) running(pod object) object {
	c.t.Helper()
	if code, o := c.ask(http.MethodPost, pods, pod); code != http.StatusCreated {
		c.t.Fatalf("%d %v", code, o)
	}
	name := at(pod, "metadata", "name").(string)
	return c.until(name, func(_ int, o object) bool { return at(o, "status", "containerStatuses", 0, "state", "running") != nil })
}

func (c *cluster) phase(name, phase string) object {
	c.t.Helper()
	return c.until(name, func(_ int, o object) bool { return at(o, "status", "phase") == phase })
}

func (c *cluster) gone(name string) {
	c.t.Helper()
	c.until(name, func(code int, _ object) bool { return code == http.StatusNotFound })
}

// exec runs a program in a pod over a WebSocket and returns what it said and how it ended, as "channel: text".
func (c *cluster) exec(pod, input string, argv ...string) (stdout, stderr string, status object) {
	c.t.Helper()
	ws, res, err := c.dial(pod, url.Values{"stdin": {"true"}, "stdout": {"true"}, "stderr": {"true"}, "command": argv})
	if err != nil {
		b := []byte{}
		if res != nil {
			b, _ = io.ReadAll(res.Body)
		}
		c.t.Fatalf("exec: %v: %s", err, b)
	}
	defer ws.Close()
	// Where nothing could be started the connection may be closed already: what is read says so.
	if err := ws.WriteMessage(websocket.BinaryMessage, append([]byte{0}, input...)); err == nil {
		_ = ws.WriteMessage(websocket.BinaryMessage, []byte{255, 0})
	}
	for {
		_, b, err := ws.ReadMessage()
		if err != nil {
			return stdout, stderr, status
		}
		switch b[0] {
		case 1:
			stdout += string(b[1:])
		case 2:
			stderr += string(b[1:])
		case 3:
			if err := json.Unmarshal(b[1:], &status); err != nil {
				c.t.Fatalf("%q: %v", b, err)
			}
		}
	}
}

func (c *cluster) dial(pod string, q url.Values) (*websocket.Conn, *http.Response, error) {
	d := websocket.Dialer{TLSClientConfig: c.tls, Subprotocols: []string{"v5.channel.k8s.io"}, HandshakeTimeout: time.Minute}
	return d.Dial(strings.Replace(c.url, "https", "wss", 1)+pods+"/"+pod+"/exec?"+q.Encode(), http.Header{"Authorization": {"Bearer " + c.token}})
}

// said is a refusal in one line.
func said(code int, o object) string {
	return fmt.Sprintf("%d %v: %v", code, o["reason"], o["message"])
}
