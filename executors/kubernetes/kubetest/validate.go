package kubetest

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// fill gives an object what the real one fills in.
func fill(r *resource, o object) {
	set := func(o object, name string, v any) {
		if o[name] == nil {
			o[name] = v
		}
	}
	spec := sub(o, "spec")
	switch r.plural {
	case "pods":
		set(spec, "restartPolicy", "Always")
		set(spec, "terminationGracePeriodSeconds", 30)
		set(spec, "dnsPolicy", "ClusterFirst")
		set(spec, "schedulerName", "default-scheduler")
		set(spec, "serviceAccountName", "default")
		set(spec, "serviceAccount", spec["serviceAccountName"])
		set(spec, "enableServiceLinks", true)
		set(spec, "securityContext", object{})
		set(spec, "priority", 0)
		set(spec, "preemptionPolicy", "PreemptLowerPriority")
		tolerated, _ := spec["tolerations"].([]any)
		for _, k := range []string{"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"} {
			if !slices.ContainsFunc(tolerated, func(t any) bool { m, _ := t.(object); return m["key"] == k }) {
				tolerated = append(tolerated, object{"key": k, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})
			}
		}
		spec["tolerations"] = tolerated
		for _, list := range []string{"containers", "initContainers"} {
			all, _ := spec[list].([]any)
			for _, one := range all {
				c, ok := one.(object)
				if !ok {
					continue
				}
				policy := "IfNotPresent"
				image, _ := c["image"].(string)
				if strings.HasSuffix(image, ":latest") || !strings.Contains(path.Base(image), ":") && !strings.Contains(image, "@") {
					policy = "Always"
				}
				set(c, "imagePullPolicy", policy)
				set(c, "terminationMessagePath", "/dev/termination-log")
				set(c, "terminationMessagePolicy", "File")
				res := sub(c, "resources")
				if limits, _ := res["limits"].(object); limits != nil {
					requests := sub(res, "requests")
					for k, v := range limits {
						set(requests, k, v)
					}
				}
			}
		}
		volumes, _ := spec["volumes"].([]any)
		for _, one := range volumes {
			if v, ok := one.(object); ok {
				if p, ok := v["secret"].(object); ok {
					set(p, "defaultMode", 420)
				}
			}
		}
		if o["status"] == nil {
			o["status"] = object{"phase": "Pending", "qosClass": qos(o)}
		}
	case "persistentvolumeclaims":
		set(spec, "volumeMode", "Filesystem")
		m := sub(o, "metadata")
		if m["deletionTimestamp"] == nil {
			set(m, "finalizers", []any{"kubernetes.io/pvc-protection"})
		}
		if o["status"] == nil {
			o["status"] = object{"phase": "Pending"}
		}
	case "networkpolicies":
		set(spec, "podSelector", object{})
		if spec["policyTypes"] == nil {
			types := []any{"Ingress"}
			if spec["egress"] != nil {
				types = append(types, "Egress")
			}
			spec["policyTypes"] = types
		}
	case "secrets", "configmaps":
		delete(o, "spec")
		if r.plural == "secrets" {
			set(o, "type", "Opaque")
			if texts, ok := o["stringData"].(object); ok {
				data := sub(o, "data")
				for k, v := range texts {
					data[k] = base64Text(fmt.Sprint(v))
				}
				delete(o, "stringData")
			}
		}
	case "namespaces":
		sub(sub(o, "metadata"), "labels")["kubernetes.io/metadata.name"] = metaOf(o)["name"]
		set(spec, "finalizers", []any{"kubernetes"})
		o["status"] = object{"phase": "Active"}
	}
}

// qos is how a pod's limits class it.
func qos(o object) string {
	p := as[pod](o)
	some, guaranteed := false, true
	for _, c := range p.Spec.Containers {
		for _, k := range []string{"cpu", "memory"} {
			l, r := c.Resources.Limits[k], c.Resources.Requests[k]
			some = some || l != nil || r != nil
			guaranteed = guaranteed && l != nil && (r == nil || fmt.Sprint(r) == fmt.Sprint(l))
		}
	}
	switch {
	case !some:
		return "BestEffort"
	case guaranteed:
		return "Guaranteed"
	}
	return "Burstable"
}

const subdomainRule = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric ` +
	`character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`

const labelRule = `a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character ` +
	`(e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`

const labelValueRule = `a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric ` +
	`character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`

const labelKeyRule = `name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  ` +
	`or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`

// validate is all that is wrong with an object.
func validate(r *resource, o object) []cause {
	var bad []cause
	add := func(c ...cause) { bad = append(bad, c...) }
	m := as[head](o).Metadata
	switch {
	case m.Name == "":
		add(required("metadata.name", "name or generateName is required"))
	case len(m.Name) > 253:
		add(invalid("metadata.name", m.Name, "must be no more than 253 characters"))
	case r.plural == "namespaces" && (!dnsLabel.MatchString(m.Name) || len(m.Name) > 63):
		add(invalid("metadata.name", m.Name, labelRule))
	case !dnsSubdomain.MatchString(m.Name):
		add(invalid("metadata.name", m.Name, subdomainRule))
	}
	add(validateLabels("metadata.labels", m.Labels)...)
	size := 0
	for _, k := range slices.Sorted(maps.Keys(m.Annotations)) {
		size += len(k) + len(m.Annotations[k])
		if !labelKey(strings.ToLower(k)) {
			add(invalid("metadata.annotations", k, labelKeyRule))
		}
	}
	if size > 256<<10 {
		add(cause{"FieldValueTooLong", "metadata.annotations", "Too long: may not be more than 262144 bytes"})
	}
	switch r.plural {
	case "pods":
		add(validatePod(as[pod](o))...)
	case "persistentvolumeclaims":
		c := as[claim](o)
		if len(c.Spec.AccessModes) == 0 {
			add(required("spec.accessModes", "at least 1 access mode is required"))
		}
		modes := []string{"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"}
		for _, a := range c.Spec.AccessModes {
			if !slices.Contains(modes, a) {
				add(notSupported("spec.accessModes", a, quoted(modes)))
			}
		}
		switch v, ok := c.Spec.Resources.Requests["storage"]; {
		case !ok:
			add(required("spec.resources[storage]", ""))
		case !(amount(v) > 0):
			add(invalid("spec.resources[storage]", fmt.Sprint(v), "must be greater than zero"))
		}
	case "networkpolicies":
		add(validatePolicy(as[networkPolicy](o))...)
	case "secrets":
		for k := range as[secret](o).Data {
			if !dataKey.MatchString(k) {
				add(invalid("data["+k+"]", k, "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  "+
					"or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"))
			}
		}
	}
	return bad
}

var (
	dataKey = regexp.MustCompile(`^[-._a-zA-Z0-9]+$`)
	envName = regexp.MustCompile(`^[ -<>-~]+$`)
)

func validateLabels(field string, labels map[string]string) []cause {
	var bad []cause
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		v := labels[k]
		if !labelKey(k) {
			bad = append(bad, invalid(field, k, labelKeyRule))
		}
		switch {
		case len(v) > 63:
			bad = append(bad, invalid(field, v, "must be no more than 63 bytes"))
		case !labelValue.MatchString(v):
			bad = append(bad, invalid(field, v, labelValueRule))
		}
	}
	return bad
}

func quoted(all []string) string {
	out := make([]string, len(all))
	for i, one := range all {
		out[i] = strconv.Quote(one)
	}
	return strings.Join(out, ", ")
}

func validatePod(p pod) []cause {
	var bad []cause
	add := func(c ...cause) { bad = append(bad, c...) }
	volumes := map[string]bool{}
	for i, v := range p.Spec.Volumes {
		at := fmt.Sprintf("spec.volumes[%d]", i)
		switch {
		case v.Name == "":
			add(required(at+".name", ""))
		case !dnsLabel.MatchString(v.Name) || len(v.Name) > 63:
			add(invalid(at+".name", v.Name, labelRule))
		case volumes[v.Name]:
			add(cause{"FieldValueDuplicate", at + ".name", fmt.Sprintf("Duplicate value: %q", v.Name)})
		}
		volumes[v.Name] = true
		n := 0
		for f, value := range reflect.ValueOf(v).Fields() {
			if f.Name != "Name" && !value.IsNil() {
				n++
			}
		}
		if n == 0 {
			add(required(at, "must specify a volume type"))
		}
		if n > 1 {
			add(notAllowed(at, "may not specify more than 1 volume type"))
		}
	}
	if len(p.Spec.Containers) == 0 {
		add(required("spec.containers", ""))
	}
	names := map[string]bool{}
	each := func(list string, all []container) {
		for i, c := range all {
			at := fmt.Sprintf("spec.%s[%d]", list, i)
			switch {
			case c.Name == "":
				add(required(at+".name", ""))
			case !dnsLabel.MatchString(c.Name) || len(c.Name) > 63:
				add(invalid(at+".name", c.Name, labelRule))
			case names[c.Name]:
				add(cause{"FieldValueDuplicate", at + ".name", fmt.Sprintf("Duplicate value: %q", c.Name)})
			}
			names[c.Name] = true
			switch {
			case c.Image == "":
				add(required(at+".image", ""))
			case c.Image != strings.TrimSpace(c.Image):
				add(invalid(at+".image", c.Image, "must not have leading or trailing whitespace"))
			}
			if !slices.Contains([]string{"Always", "IfNotPresent", "Never"}, c.ImagePullPolicy) {
				add(notSupported(at+".imagePullPolicy", c.ImagePullPolicy, `"Always", "IfNotPresent", "Never"`))
			}
			for j, e := range c.Env {
				if !envName.MatchString(e.Name) {
					add(invalid(fmt.Sprintf("%s.env[%d].name", at, j), e.Name, "a valid environment variable name must consist only of printable ASCII characters other than '='"))
				}
			}
			mounted := map[string]bool{}
			for j, m := range c.VolumeMounts {
				mat := fmt.Sprintf("%s.volumeMounts[%d]", at, j)
				if m.Name == "" {
					add(required(mat+".name", ""))
				} else if !volumes[m.Name] {
					add(cause{"FieldValueNotFound", mat + ".name", fmt.Sprintf("Not found: %q", m.Name)})
				}
				if m.MountPath == "" {
					add(required(mat+".mountPath", ""))
				} else if mounted[m.MountPath] {
					add(invalid(mat+".mountPath", m.MountPath, "must be unique"))
				}
				mounted[m.MountPath] = true
			}
			for _, k := range slices.Sorted(maps.Keys(c.Resources.Requests)) {
				if l, ok := c.Resources.Limits[k]; ok && amount(c.Resources.Requests[k]) > amount(l) {
					add(invalid(at+".resources.requests", fmt.Sprint(c.Resources.Requests[k]), fmt.Sprintf("must be less than or equal to %s limit of %v", k, l)))
				}
			}
			if s := c.SecurityContext; s.AllowPrivilegeEscalation != nil && !*s.AllowPrivilegeEscalation && s.Privileged != nil && *s.Privileged {
				add(invalid(at+".securityContext", "", "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"))
			}
		}
	}
	each("initContainers", p.Spec.InitContainers)
	each("containers", p.Spec.Containers)
	if !slices.Contains([]string{"Always", "OnFailure", "Never"}, p.Spec.RestartPolicy) {
		add(notSupported("spec.restartPolicy", p.Spec.RestartPolicy, `"Always", "OnFailure", "Never"`))
	}
	if g := p.Spec.TerminationGracePeriodSeconds; g != nil && *g < 0 {
		add(invalid("spec.terminationGracePeriodSeconds", *g, "must be greater than or equal to 0"))
	}
	add(validateLabels("spec.nodeSelector", p.Spec.NodeSelector)...)
	for i, t := range p.Spec.Tolerations {
		at := fmt.Sprintf("spec.tolerations[%d]", i)
		if t.Key == "" && t.Operator != "Exists" {
			add(invalid(at+".operator", t.Operator, "operator must be Exists when `key` is empty, which means \"match all values and all keys\""))
		}
		if t.TolerationSeconds != nil && t.Effect != "NoExecute" {
			add(invalid(at+".effect", t.Effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"))
		}
		if !slices.Contains([]string{"", "NoSchedule", "PreferNoSchedule", "NoExecute"}, t.Effect) {
			add(notSupported(at+".effect", t.Effect, `"NoSchedule", "PreferNoSchedule", "NoExecute"`))
		}
	}
	return bad
}

func validatePolicy(p networkPolicy) []cause {
	var bad []cause
	if len(p.Spec.PolicyTypes) > 2 {
		bad = append(bad, invalid("spec.policyTypes", p.Spec.PolicyTypes, "may not specify more than two policyTypes"))
	}
	for i, t := range p.Spec.PolicyTypes {
		if t != "Ingress" && t != "Egress" {
			bad = append(bad, notSupported(fmt.Sprintf("spec.policyTypes[%d]", i), t, `"Ingress", "Egress"`))
		}
	}
	peers := func(at string, all []policyPeer) {
		for j, one := range all {
			field := fmt.Sprintf("%s[%d]", at, j)
			if one.PodSelector == nil && one.NamespaceSelector == nil && one.IPBlock == nil {
				bad = append(bad, required(field, "must specify a peer"))
			}
			if b := one.IPBlock; b != nil {
				if one.PodSelector != nil || one.NamespaceSelector != nil {
					bad = append(bad, notAllowed(field, "may not specify both ipBlock and another peer"))
				}
				if x, err := netip.ParsePrefix(b.CIDR); err != nil {
					bad = append(bad, invalid(field+".ipBlock.cidr", b.CIDR, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"))
				} else {
					for e, no := range b.Except {
						if n, err := netip.ParsePrefix(no); err != nil || !x.Contains(n.Addr()) || n.Bits() <= x.Bits() {
							bad = append(bad, invalid(fmt.Sprintf("%s.ipBlock.except[%d]", field, e), no, "must be a strict subset of `cidr`"))
						}
					}
				}
			}
		}
	}
	ports := func(at string, all []policyPort) {
		for j, one := range all {
			field := fmt.Sprintf("%s[%d]", at, j)
			if one.Protocol != "" && !slices.Contains([]string{"TCP", "UDP", "SCTP"}, one.Protocol) {
				bad = append(bad, notSupported(field+".protocol", one.Protocol, `"SCTP", "TCP", "UDP"`))
			}
			if n, ok := one.Port.(float64); ok && (n < 1 || n > 65535) {
				bad = append(bad, invalid(field+".port", n, "must be between 1 and 65535, inclusive"))
			}
		}
	}
	for i, r := range p.Spec.Ingress {
		peers(fmt.Sprintf("spec.ingress[%d].from", i), r.From)
		ports(fmt.Sprintf("spec.ingress[%d].ports", i), r.Ports)
	}
	for i, r := range p.Spec.Egress {
		peers(fmt.Sprintf("spec.egress[%d].to", i), r.To)
		ports(fmt.Sprintf("spec.egress[%d].ports", i), r.Ports)
	}
	return bad
}

// unchanging is what may not be changed of an object and was.
func unchanging(r *resource, was, now object) []cause {
	a, b := clone(was), clone(now)
	sa, sb := sub(a, "spec"), sub(b, "spec")
	text := "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`," +
		"`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
	if r.plural == "persistentvolumeclaims" {
		text = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
		delete(sa, "resources")
		delete(sb, "resources")
	}
	for _, s := range []object{sa, sb} {
		delete(s, "activeDeadlineSeconds")
		delete(s, "tolerations")
		for _, list := range []string{"containers", "initContainers"} {
			all, _ := s[list].([]any)
			for _, c := range all {
				delete(c.(object), "image")
			}
		}
	}
	if reflect.DeepEqual(sa, sb) {
		return nil
	}
	return []cause{notAllowed("spec", text)}
}

var quantity = regexp.MustCompile(`^([+-]?[0-9.]+)([eE][-+]?[0-9]+|[numkMGTPE]|[KMGTPE]i)?$`)

// amount is what a quantity says; NaN if it says nothing.
func amount(v any) float64 {
	m := quantity.FindStringSubmatch(cmp.Or(fmt.Sprint(v), "x"))
	if m == nil {
		return nan
	}
	n, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return nan
	}
	if strings.HasPrefix(m[2], "e") || strings.HasPrefix(m[2], "E") && len(m[2]) > 1 && m[2] != "Ei" {
		n, _ = strconv.ParseFloat(m[1]+m[2], 64)
		return n
	}
	units := map[string]float64{"": 1, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
		"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50, "Ei": 1 << 60}
	return n * units[m[2]]
}
