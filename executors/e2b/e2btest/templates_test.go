package e2btest_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors/e2b/e2btest"
)

func TestATemplateIsBuilt(t *testing.T) {
	t.Parallel()
	r := newRig(t, e2btest.Config{})
	for _, bad := range []m{{"name": "Bad Name"}, {"name": "x", "cpuCount": 3}, {"name": "x", "cpuCount": 16}, {"name": "x", "memoryMB": 127}, {"name": "x", "memoryMB": 513},
		{"name": "x", "memoryMB": 1 << 20}, {"name": strings.Repeat("x", 129)}} {
		r.call(http.StatusBadRequest, "POST", "/v3/templates", bad)
	}
	var made struct{ TemplateID, BuildID string }
	r.call(http.StatusAccepted, "POST", "/v3/templates", m{"name": "mine:v1", "cpuCount": 4, "memoryMB": 1024}).into(t, &made)
	r.call(http.StatusNotFound, "POST", "/v2/sandboxes", m{"templateID": "mine"})
	hash := strings.Repeat("ab", 32)
	var up struct {
		Present bool
		URL     string
	}
	r.call(http.StatusCreated, "GET", "/templates/"+made.TemplateID+"/files/"+hash, nil).into(t, &up)
	if up.Present || up.URL == "" {
		t.Fatalf("%+v", up)
	}
	steps := []m{{"type": "RUN", "args": []string{"apt-get update", "root"}}, {"type": "COPY", "args": []string{"guest", "/opt/parawork/guest", "root", "0755"}, "filesHash": hash},
		{"type": "USER", "args": []string{"user"}}, {"type": "WORKDIR", "args": []string{"/home/user"}}, {"type": "ENV", "args": []string{"A", "b"}}}
	path := "/v2/templates/" + made.TemplateID + "/builds/" + made.BuildID
	r.call(http.StatusBadRequest, "POST", path, m{"fromImage": "node:24", "steps": steps})
	for _, bad := range []m{{}, {"fromImage": "a", "fromTemplate": "b"}, {"fromImage": "a", "steps": []m{{"type": "FLY"}}}, {"fromImage": "a", "steps": []m{{"type": "RUN"}}},
		{"fromImage": "a", "step": []m{}}} {
		r.call(http.StatusBadRequest, "POST", path, bad)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	tw := tar.NewWriter(z)
	_ = tw.WriteHeader(&tar.Header{Name: "guest", Mode: 0o644, Size: 5})
	_, _ = tw.Write([]byte("#!/x\n"))
	tw.Close()
	z.Close()
	req, err := http.NewRequestWithContext(t.Context(), "PUT", up.URL, bytes.NewReader(packed.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if a, err := do(req); err != nil || a.status != 200 {
		t.Fatalf("%d, %v", a.status, err)
	}
	r.call(http.StatusCreated, "GET", "/templates/"+made.TemplateID+"/files/"+hash, nil).into(t, &up)
	if !up.Present {
		t.Error("the upload is not there")
	}
	r.call(http.StatusAccepted, "POST", path, m{"fromImage": "node:24", "steps": steps, "force": false, "startCmd": "", "readyCmd": ""})
	r.call(http.StatusBadRequest, "POST", path, m{"fromImage": "node:24"})
	logs := 0
	eventually(t, "the build ends", func() bool {
		var st struct {
			Status     string
			LogEntries []struct{ Message string }
		}
		r.call(http.StatusOK, "GET", "/templates/"+made.TemplateID+"/builds/"+made.BuildID+"/status?logsOffset="+jsonText(logs), nil).into(t, &st)
		logs += len(st.LogEntries)
		return st.Status == "ready"
	})
	if logs < len(steps) {
		t.Errorf("%d lines of logs", logs)
	}
	b := r.create(m{"templateID": "mine:v1"})
	if out, _ := b.sh("stat -c '%a %U' /opt/parawork/guest"); out != "755 root\n" {
		t.Errorf("%q", out)
	}
	if built := r.Builds(); len(built) != 1 || built[0].CPUs != 4 || built[0].Status != "ready" || len(built[0].Request.Steps) != len(steps) {
		t.Errorf("%+v", built)
	}
	r.call(http.StatusOK, "GET", "/templates/aliases/mine", nil)
	r.call(http.StatusNotFound, "GET", "/templates/aliases/yours", nil)
	r.FailBuilds("npm is down")
	r.call(http.StatusAccepted, "POST", "/v3/templates", m{"name": "mine", "tags": []string{"v2"}}).into(t, &made)
	r.call(http.StatusAccepted, "POST", "/v2/templates/"+made.TemplateID+"/builds/"+made.BuildID, m{"fromTemplate": "base"})
	eventually(t, "the build fails", func() bool {
		var st struct {
			Status string
			Reason struct{ Message string }
		}
		r.call(http.StatusOK, "GET", "/templates/"+made.TemplateID+"/builds/"+made.BuildID+"/status", nil).into(t, &st)
		return st.Status == "error" && st.Reason.Message == "npm is down"
	})
	r.call(http.StatusNoContent, "DELETE", "/templates/"+made.TemplateID, nil)
	r.call(http.StatusNotFound, "POST", "/v2/sandboxes", m{"templateID": "mine"})
}
