package config

import (
	"net/url"
	"strings"

	"github.com/parawork/parawork/internal/egress"
	"github.com/parawork/parawork/internal/hostname"
)

// NoProxy is the Network.Proxy that goes out without one whatever the environment says.
const NoProxy = "none"

func (d *decoder) checkNetwork(n *Network) {
	d.checkOneOf("sandboxing.network.mode", n.Mode, "open", "allow", "none")
	for _, name := range n.Allow {
		if strings.HasPrefix(name, "@") {
			continue // a list by name: the network service knows which ones exist
		}
		if _, err := hostname.Parse(name); err != nil {
			d.problem("sandboxing.network.allow", "%v", err)
		}
	}
	for _, a := range n.AllowPrivate {
		if _, err := egress.ParseException(a); err != nil {
			d.problem("sandboxing.network.allowPrivate", "%q %v", a, err)
		}
	}
	if n.Proxy == "" || n.Proxy == NoProxy {
		return
	}
	if u, err := url.Parse(n.Proxy); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Path != "" && u.Path != "/" {
		d.problem("sandboxing.network.proxy", `must be an address such as http://proxy.example.com:3128, "none", or empty for what the environment says`)
	}
}

// Private returns AllowPrivate as exceptions.
func (n Network) Private() []egress.Exception {
	var out []egress.Exception
	for _, a := range n.AllowPrivate {
		if e, err := egress.ParseException(a); err == nil { // checked by Load
			out = append(out, e)
		}
	}
	return out
}
