package kafka

import (
	"context"
	"regexp"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ApiVersions, versions 0 to 4.
//
//	v3  name and version of the client (KIP-511); features (KIP-584)
//	v4  features whose minimum is 0 are listed as supported (KAFKA-17011)
//
// Java clients 3.3 to 3.7 refuse an answer with a supported feature whose minimum is 0,
// so version 3 leaves these out, as Kafka does since KAFKA-17492. The finalized
// features are in both versions.
//
// A request of a newer version than 4 is answered with UNSUPPORTED_VERSION and the versions
// that are served, in version 0 (KIP-511).

// features are the features of the cluster, finalized at their maximum. Clients that find
// them use the newer group protocol (KIP-848) and the second version of transactions
// (KIP-890). The older forms are served, too, hence the minimum of 0.
var features = []struct {
	name     string
	min, max int16
}{
	{"group.version", 0, 1},
	{"transaction.version", 0, 2},
}

// softwareName matches the names and versions of clients that KIP-511 allows.
var softwareName = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$`)

// apiVersions answers with the APIs that are served, their versions, and the features.
func (s *Server) apiVersions(_ context.Context, _ *conn, req *kmsg.ApiVersionsRequest) *kmsg.ApiVersionsResponse {
	resp := req.ResponseKind().(*kmsg.ApiVersionsResponse)
	if req.Version >= 3 && (!softwareName.MatchString(req.ClientSoftwareName) || !softwareName.MatchString(req.ClientSoftwareVersion)) {
		resp.ErrorCode = kerr.InvalidRequest.Code
		return resp
	}
	resp.ApiKeys = apiKeys()
	for _, f := range features {
		if req.Version >= 4 || f.min > 0 {
			supported := kmsg.NewApiVersionsResponseSupportedFeature()
			supported.Name, supported.MinVersion, supported.MaxVersion = f.name, f.min, f.max
			resp.SupportedFeatures = append(resp.SupportedFeatures, supported)
		}
		finalized := kmsg.NewApiVersionsResponseFinalizedFeature()
		finalized.Name, finalized.MinVersionLevel, finalized.MaxVersionLevel = f.name, f.max, f.max
		resp.FinalizedFeatures = append(resp.FinalizedFeatures, finalized)
	}
	resp.FinalizedFeaturesEpoch = 1
	return resp
}

// apiVersionsFallback returns the answer to a request of a newer version.
func apiVersionsFallback() *kmsg.ApiVersionsResponse {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.ErrorCode = kerr.UnsupportedVersion.Code
	resp.ApiKeys = apiKeys()
	return resp
}

// apiKeys returns the table of APIs in the form of the answer, in the order of the keys.
func apiKeys() []kmsg.ApiVersionsResponseApiKey {
	var out []kmsg.ApiVersionsResponseApiKey
	for _, a := range apis {
		if a == nil {
			continue
		}
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MinVersion, k.MaxVersion = int16(a.key), a.min, a.max
		out = append(out, k)
	}
	return out
}
