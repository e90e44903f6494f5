package operator

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestAStoreThatGoesBackEndsTheOperator(t *testing.T) {
	const silent = "-" // the API server does not answer
	for name, c := range map[string]struct {
		versions []string
		ends     bool
	}{
		"it goes on":                            {versions: []string{"7", "8", "8", "30"}},
		"it goes back":                          {versions: []string{"7", "30", "29"}, ends: true},
		"it goes back in an outage":             {versions: []string{"30", silent, silent, "7"}, ends: true},
		"9 is before 10":                        {versions: []string{"9", "10"}},
		"an outage at the start":                {versions: []string{silent, "7", "8"}},
		"versions that nobody can compare":      {versions: []string{"b", "a"}},
		"an API server that does not give them": {versions: []string{"", "", "7"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				r := &rewind{clock: clock.RealClock{}, log: logr.Discard(), version: func(context.Context) (string, error) {
					now := c.versions[min(asked, len(c.versions)-1)]
					asked++
					if now == silent {
						return "", errors.New("no answer")
					}
					return now, nil
				}}
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(len(c.versions)+1)*rewindEvery)
				defer cancel()
				err := r.Start(ctx)
				if ended := errors.Is(err, errRewound); ended != c.ends || err != nil && !ended {
					t.Errorf("ended with %v, want an end: %v", err, c.ends)
				}
				if asked < len(c.versions) {
					t.Errorf("asked %d times, want %d", asked, len(c.versions))
				}
			})
		})
	}
}

func TestTheVersionOfTheStoreIsAskedForWhereTheOperatorMayAsk(t *testing.T) {
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		namespaces []string
		want       string
	}{
		"everywhere":         {nil, ""},
		"in some namespaces": {[]string{"a", "b"}, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			var got client.ListOptions
			direct := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
				List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
					got.ApplyOptions(options)
					list.SetResourceVersion("41")
					return nil
				},
			}).Build()
			version, err := storeVersion(direct, c.namespaces)(t.Context())
			if err != nil || version != "41" {
				t.Fatalf("the version is %q, %v", version, err)
			}
			// Without a version of its own the answer is the newest there is, and one object is enough.
			if want := (client.ListOptions{Namespace: c.want, Limit: 1}); got.Namespace != want.Namespace || got.Limit != want.Limit || got.AsListOptions().ResourceVersion != "" {
				t.Errorf("asked with %+v, want %+v", got, want)
			}
		})
	}
}
