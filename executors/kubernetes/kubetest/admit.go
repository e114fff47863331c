package kubetest

import (
	"encoding/base64"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

var nan = math.NaN()

func base64Text(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// admit refuses what is well formed and not wanted. The caller holds mu.
func (s *Server) admit(c *call, name string, o object) error {
	for _, q := range quantitiesOf(o) {
		if math.IsNaN(amount(q)) {
			return refuse(http.StatusBadRequest, "%s in version %q cannot be handled as a %s: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
				c.res.kind, c.res.version, c.res.kind)
		}
	}
	if c.res.plural != "pods" {
		return nil
	}
	p := as[pod](o)
	if n := p.Spec.RuntimeClassName; n != nil && *n != "" && s.store[key{"runtimeclasses", "", *n}] == nil {
		return c.res.forbidden(name, fmt.Sprintf("pod rejected: RuntimeClass %q not found", *n))
	}
	if n := p.Spec.PriorityClassName; n != "" && s.store[key{"priorityclasses", "", n}] == nil {
		return c.res.forbidden(name, "no PriorityClass with name "+n+" was found")
	}
	if n := p.Spec.ServiceAccountName; s.store[key{"serviceaccounts", c.ns, n}] == nil {
		return c.res.forbidden(name, fmt.Sprintf("error looking up service account %s/%s: serviceaccount %q not found", c.ns, n, n))
	}
	labels, _ := metaOf(s.store[key{"namespaces", "", c.ns}].obj)["labels"].(object)
	if level, _ := labels["pod-security.kubernetes.io/enforce"].(string); level != "" && level != "privileged" {
		if bad := violations(p, level == "restricted"); len(bad) > 0 {
			return c.res.forbidden(name, fmt.Sprintf("violates PodSecurity \"%s:latest\": %s", level, strings.Join(bad, ", ")))
		}
	}
	return nil
}

// quantitiesOf are all quantities of an object.
func quantitiesOf(o object) []any {
	var out []any
	add := func(r requirements) {
		out = append(out, slices.Collect(maps.Values(r.Limits))...)
		out = append(out, slices.Collect(maps.Values(r.Requests))...)
	}
	switch o["kind"] {
	case "Pod":
		p := as[pod](o)
		for _, c := range append(p.Spec.InitContainers, p.Spec.Containers...) {
			add(c.Resources)
		}
		for _, v := range p.Spec.Volumes {
			if v.EmptyDir != nil && v.EmptyDir.SizeLimit != nil {
				out = append(out, v.EmptyDir.SizeLimit)
			}
		}
	case "PersistentVolumeClaim":
		add(as[claim](o).Spec.Resources)
	}
	return out
}

// violations are what a standard of pod security forbids of a pod, in the words of the real one.
func violations(p pod, restricted bool) []string {
	var bad []string
	all := append(slices.Clone(p.Spec.InitContainers), p.Spec.Containers...)
	who := func(fits func(container) bool) (text string, n int) {
		var names []string
		for _, c := range all {
			if fits(c) {
				names = append(names, strconv.Quote(c.Name))
			}
		}
		if len(names) == 1 {
			return "container " + names[0], 1
		}
		return "containers " + strings.Join(names, ", "), len(names)
	}
	is := func(b *bool) bool { return b != nil && *b }
	if p.Spec.HostNetwork || p.Spec.HostPID || p.Spec.HostIPC {
		var on []string
		for name, yes := range map[string]bool{"hostNetwork=true": p.Spec.HostNetwork, "hostPID=true": p.Spec.HostPID, "hostIPC=true": p.Spec.HostIPC} {
			if yes {
				on = append(on, name)
			}
		}
		slices.Sort(on)
		bad = append(bad, "host namespaces ("+strings.Join(on, ", ")+")")
	}
	if w, n := who(func(c container) bool { return is(c.SecurityContext.Privileged) }); n > 0 {
		bad = append(bad, "privileged ("+w+" must not set securityContext.privileged=true)")
	}
	var odd []string
	for _, v := range p.Spec.Volumes {
		if v.HostPath != nil || v.NFS != nil {
			odd = append(odd, v.Name)
		}
	}
	if w, n := who(func(c container) bool {
		return slices.ContainsFunc(c.Ports, func(p containerPort) bool { return p.HostPort != 0 })
	}); n > 0 {
		bad = append(bad, "hostPort ("+w+" uses a hostPort)")
	}
	if !restricted {
		return bad
	}
	if w, n := who(func(c container) bool {
		return c.SecurityContext.AllowPrivilegeEscalation == nil || *c.SecurityContext.AllowPrivilegeEscalation
	}); n > 0 {
		bad = append(bad, "allowPrivilegeEscalation != false ("+w+" must set securityContext.allowPrivilegeEscalation=false)")
	}
	if w, n := who(func(c container) bool {
		caps := c.SecurityContext.Capabilities
		return caps == nil || !slices.Contains(caps.Drop, "ALL")
	}); n > 0 {
		bad = append(bad, "unrestricted capabilities ("+w+" must set securityContext.capabilities.drop=[\"ALL\"])")
	}
	if w, n := who(func(c container) bool {
		caps := c.SecurityContext.Capabilities
		return caps != nil && slices.ContainsFunc(caps.Add, func(a string) bool { return a != "NET_BIND_SERVICE" })
	}); n > 0 {
		bad = append(bad, "unrestricted capabilities ("+w+" must not include capabilities other than NET_BIND_SERVICE in securityContext.capabilities.add)")
	}
	if len(odd) > 0 {
		bad = append(bad, fmt.Sprintf("restricted volume types (volume %q uses restricted volume type \"hostPath\")", odd[0]))
	}
	pod := "pod or "
	if w, n := who(func(c container) bool {
		return !is(c.SecurityContext.RunAsNonRoot) && (c.SecurityContext.RunAsNonRoot != nil || !is(p.Spec.SecurityContext.RunAsNonRoot))
	}); n > 0 {
		bad = append(bad, "runAsNonRoot != true ("+pod+w+" must set securityContext.runAsNonRoot=true)")
	}
	if u := p.Spec.SecurityContext.RunAsUser; u != nil && *u == 0 {
		bad = append(bad, "runAsUser=0 (pod must not set runAsUser=0)")
	} else if w, n := who(func(c container) bool { u := c.SecurityContext.RunAsUser; return u != nil && *u == 0 }); n > 0 {
		bad = append(bad, "runAsUser=0 ("+w+" must not set runAsUser=0)")
	}
	fits := func(s *seccomp) bool { return s != nil && (s.Type == "RuntimeDefault" || s.Type == "Localhost") }
	if w, n := who(func(c container) bool {
		return !fits(c.SecurityContext.SeccompProfile) && (c.SecurityContext.SeccompProfile != nil || !fits(p.Spec.SecurityContext.SeccompProfile))
	}); n > 0 {
		bad = append(bad, "seccompProfile ("+pod+w+" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")")
	}
	return bad
}

// quotaName is the name of the quota of the namespace.
const quotaName = "quota"

// usage is what an object counts for in a quota.
func usage(o object) map[string]float64 {
	out := map[string]float64{}
	switch o["kind"] {
	case "Pod":
		p := as[pod](o)
		if status, _ := o["status"].(object); status["phase"] == "Succeeded" || status["phase"] == "Failed" {
			return out
		}
		out["pods"] = 1
		for _, c := range p.Spec.Containers {
			for k, v := range c.Resources.Requests {
				out["requests."+k] += amount(v)
				out[k] += amount(v)
			}
			for k, v := range c.Resources.Limits {
				out["limits."+k] += amount(v)
			}
		}
	case "PersistentVolumeClaim":
		out["persistentvolumeclaims"] = 1
		out["requests.storage"] = amount(as[claim](o).Spec.Resources.Requests["storage"])
	}
	return out
}

// withinQuota refuses what is over the quota. The caller holds mu.
func (s *Server) withinQuota(r *resource, name string, o object) error {
	wants := usage(o)
	if len(s.quotas) == 0 || len(wants) == 0 {
		return nil
	}
	used := map[string]float64{}
	for _, other := range s.store {
		for k, v := range usage(other.obj) {
			used[k] += v
		}
	}
	var requested, have, limited, missing []string
	for _, k := range slices.Sorted(maps.Keys(s.quotas)) {
		v, ok := wants[k]
		computing := strings.HasPrefix(k, "limits.") || k == "requests.cpu" || k == "requests.memory" || k == "cpu" || k == "memory"
		if !ok && computing && r.plural == "pods" {
			missing = append(missing, k+" for: "+as[pod](o).Spec.Containers[0].Name)
		}
		if ok && used[k]+v > amount(s.quotas[k]) {
			requested = append(requested, k+"="+said(k, v))
			have = append(have, k+"="+said(k, used[k]))
			limited = append(limited, k+"="+s.quotas[k])
		}
	}
	if len(missing) > 0 {
		return r.forbidden(name, "failed quota: "+quotaName+": must specify "+strings.Join(missing, "; "))
	}
	if len(requested) > 0 {
		return r.forbidden(name, fmt.Sprintf("exceeded quota: %s, requested: %s, used: %s, limited: %s", quotaName, strings.Join(requested, ","), strings.Join(have, ","), strings.Join(limited, ",")))
	}
	return nil
}

// said is a quantity as text.
func said(what string, v float64) string {
	if strings.HasSuffix(what, "memory") || strings.HasSuffix(what, "storage") {
		for _, u := range []struct {
			name string
			size float64
		}{{"Gi", 1 << 30}, {"Mi", 1 << 20}, {"Ki", 1 << 10}} {
			if v >= u.size && math.Mod(v, u.size) == 0 {
				return strconv.FormatFloat(v/u.size, 'f', -1, 64) + u.name
			}
		}
	}
	if v != math.Trunc(v) {
		return strconv.FormatFloat(v*1000, 'f', 0, 64) + "m"
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}
