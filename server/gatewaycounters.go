package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/parawork/parawork/billing/gateway"
)

// gatewayCollector tells Prometheus what is counted of the model gateway since the server started. Labels name APIs and outcomes: models
// and hosts are agents' and people's to choose, and many.
type gatewayCollector struct{ s *Server }

var (
	descGatewayRequests = desc("gateway_requests_total", "Requests to models, by how they went: ok, or why not.", "api", "outcome")
	descGatewayRetries  = desc("gateway_retries_total", "Further tries of requests to models, before the first byte.")
	descGatewayFlight   = desc("gateway_in_flight", "Requests to models that are under way.")
	descGatewayTokens   = desc("gateway_tokens_total", "Tokens of models' answers, as far as they are known.", "kind")
	descGatewayFirst    = desc("gateway_first_byte_seconds", "From a request's arrival to the first byte of its answer.")
	descGatewayOwn      = desc("gateway_own_seconds", "What the gateway itself took of that.")
)

// Describe names what Collect tells.
func (g *gatewayCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range [...]*prometheus.Desc{descGatewayRequests, descGatewayRetries, descGatewayFlight, descGatewayTokens, descGatewayFirst, descGatewayOwn} {
		ch <- d
	}
}

// Collect tells the figures as they are now.
func (g *gatewayCollector) Collect(ch chan<- prometheus.Metric) {
	c := g.s.cfg.Gateway.Counts()
	for o, n := range c.Outcomes {
		ch <- prometheus.MustNewConstMetric(descGatewayRequests, prometheus.CounterValue, float64(n), o.API, o.Result)
	}
	ch <- prometheus.MustNewConstMetric(descGatewayRetries, prometheus.CounterValue, float64(c.Retries))
	ch <- prometheus.MustNewConstMetric(descGatewayFlight, prometheus.GaugeValue, float64(c.InFlight))
	for kind, n := range c.Tokens {
		ch <- prometheus.MustNewConstMetric(descGatewayTokens, prometheus.CounterValue, float64(n), kind)
	}
	histogram(ch, descGatewayFirst, c.FirstByte, gateway.FirstByteBounds[:], 1e3)
	histogram(ch, descGatewayOwn, c.Own, gateway.OwnBounds[:], 1e6)
}

// histogram tells one in seconds, of which its unit is so many.
func histogram(ch chan<- prometheus.Metric, d *prometheus.Desc, h gateway.Histogram, bounds []int64, unit float64) {
	below := make(map[float64]uint64, len(bounds))
	sum := uint64(0)
	for i, top := range bounds {
		if i < len(h.Buckets) {
			sum += uint64(h.Buckets[i])
		}
		below[float64(top)/unit] = sum
	}
	ch <- prometheus.MustNewConstHistogram(d, uint64(h.Count), float64(h.Sum)/unit, below)
}
