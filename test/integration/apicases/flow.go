package apicases

import "strings"

var flowCases = []Case{
	{Name: "a flow with nothing but a name", Base: Flow},
	{Name: "a flow name of 40 characters", Base: Flow, Object: []string{set("metadata.name", strings.Repeat("a", 40))}},
	{
		Name: "a flow name of 41 characters", Base: Flow, Object: []string{set("metadata.name", strings.Repeat("a", 41))},
		Refused: "metadata.name must be at most 40 characters: the names of Services and pods are built from it",
	},
	{
		Name: "a flow name that starts with a digit", Base: Flow, Object: []string{`metadata: {name: 7orders}`},
		Refused: "it becomes the name of a Service",
	},
	{
		Name: "a flow name with a dot", Base: Flow, Object: []string{`metadata: {name: orders.eu}`},
		Refused: "it becomes the name of a Service",
	},

	{Name: "a Memory queue", Base: Flow, Object: []string{`spec: {queue: {type: Memory}}`}},
	{
		Name: "a queue of a type that does not exist", Base: Flow, Object: []string{`spec: {queue: {type: Shared}}`},
		Refused: `Unsupported value: "Shared"`,
	},
	{
		Name: "a volume for a Memory queue", Base: Flow, Object: []string{`spec: {queue: {type: Memory, local: {size: 1Gi}}}`},
		Refused: "queue.local may be set only where queue.type is Local",
	},
	{
		Name: "a change of queue.type", Base: Flow, Update: []string{`spec: {queue: {type: Memory}}`},
		Refused: "queue.type cannot change",
	},
	{Name: "a PostgreSQL queue", Base: Flow, Object: []string{`spec: {queue: {type: PostgreSQL, postgreSQL: {connectionSecretRef: {name: db}}}}`}},
	{
		Name: "three producers of a PostgreSQL queue", Base: Flow,
		Object: []string{`spec: {producer: {replicas: 3}, queue: {type: PostgreSQL, postgreSQL: {connectionSecretRef: {name: db, key: url}}}}`},
	},
	{
		Name: "a PostgreSQL queue without a database", Base: Flow, Object: []string{`spec: {queue: {type: PostgreSQL}}`},
		Refused: "queue.postgreSQL must be set where queue.type is PostgreSQL",
	},
	{
		Name: "a database for a Local queue", Base: Flow, Object: []string{`spec: {queue: {postgreSQL: {connectionSecretRef: {name: db}}}}`},
		Refused: "queue.postgreSQL must be set where queue.type is PostgreSQL, and nowhere else",
	},
	{
		Name: "a volume for a PostgreSQL queue", Base: Flow,
		Object:  []string{`spec: {queue: {type: PostgreSQL, local: {size: 1Gi}, postgreSQL: {connectionSecretRef: {name: db}}}}`},
		Refused: "queue.local may be set only where queue.type is Local",
	},
	{
		Name: "a connection Secret without a name", Base: Flow, Object: []string{`spec: {queue: {type: PostgreSQL, postgreSQL: {connectionSecretRef: {key: dsn}}}}`},
		Refused: "spec.queue.postgreSQL.connectionSecretRef.name",
	},
	{
		Name: "another Secret for the same database", Base: Flow,
		Object: []string{`spec: {queue: {type: PostgreSQL, postgreSQL: {connectionSecretRef: {name: db}}}}`},
		Update: []string{`spec: {queue: {postgreSQL: {connectionSecretRef: {name: db2}}}}`},
	},
	{
		Name: "two producers of a Local queue", Base: Flow, Object: []string{`spec: {producer: {replicas: 2}}`},
		Refused: "producer.replicas above 1 needs a queue that several pods can open",
	},
	{
		Name: "two producers of a Memory queue", Base: Flow, Object: []string{`spec: {producer: {replicas: 2}, queue: {type: Memory}}`},
		Refused: "producer.replicas above 1 needs a queue that several pods can open",
	},
	{
		Name: "six producers", Base: Flow,
		Object:  []string{`spec: {producer: {replicas: 6}, queue: {type: PostgreSQL, postgreSQL: {connectionSecretRef: {name: db}}}}`},
		Refused: "spec.producer.replicas",
	},
	{
		Name: "no producer", Base: Flow, Object: []string{`spec: {producer: {replicas: 0}}`},
		Refused: "spec.producer.replicas",
	},
	{Name: "a volume of 64Mi", Base: Flow, Object: []string{`spec: {queue: {local: {size: 64Mi}}}`}},
	{Name: "a volume size that is a number", Base: Flow, Object: []string{`spec: {queue: {local: {size: 1073741824}}}`}},
	{
		Name: "a volume of 63Mi", Base: Flow, Object: []string{`spec: {queue: {local: {size: 63Mi}}}`},
		Refused: "size must be at least 64Mi",
	},
	{
		Name: "a volume size that is no quantity", Base: Flow, Object: []string{`spec: {queue: {local: {size: large}}}`},
		Refused: "spec.queue.local.size",
	},
	{
		Name: "a volume that grows", Base: Flow, Object: []string{`spec: {queue: {local: {size: 1Gi}}}`},
		Update: []string{`spec: {queue: {local: {size: 2Gi}}}`},
	},
	{Name: "a default volume that grows", Base: Flow, Update: []string{`spec: {queue: {local: {size: 20Gi}}}`}},
	{
		Name: "a volume that shrinks", Base: Flow, Object: []string{`spec: {queue: {local: {size: 2Gi}}}`},
		Update: []string{`spec: {queue: {local: {size: 1Gi}}}`}, Refused: "queue.local.size cannot shrink",
	},
	{
		Name: "a volume that shrinks to the default", Base: Flow, Object: []string{`spec: {queue: {local: {size: 20Gi}}}`},
		Update: []string{`spec: {queue: {local: null}}`}, Refused: "queue.local.size cannot shrink",
	},
	{
		Name: "a default volume that shrinks", Base: Flow,
		Update: []string{`spec: {queue: {local: {size: 1Gi}}}`}, Refused: "queue.local.size cannot shrink",
	},
	{Name: "a StorageClass", Base: Flow, Object: []string{`spec: {queue: {local: {storageClassName: fast.ssd}}}`}},
	{Name: "a volume without a class", Base: Flow, Object: []string{`spec: {queue: {local: {storageClassName: ""}}}`}},
	{
		Name: "a StorageClass that is no name", Base: Flow, Object: []string{`spec: {queue: {local: {storageClassName: Fast SSD}}}`},
		Refused: "spec.queue.local.storageClassName",
	},
	{
		Name: "a change of the StorageClass", Base: Flow, Object: []string{`spec: {queue: {local: {storageClassName: fast}}}`},
		Update: []string{`spec: {queue: {local: {storageClassName: slow}}}`}, Refused: "queue.local.storageClassName cannot change",
	},
	{
		Name: "a StorageClass set later", Base: Flow,
		Update: []string{`spec: {queue: {local: {storageClassName: fast}}}`}, Refused: "queue.local.storageClassName cannot change",
	},
	{
		Name: "a StorageClass taken away", Base: Flow, Object: []string{`spec: {queue: {local: {storageClassName: fast}}}`},
		Update: []string{`spec: {queue: {local: {storageClassName: null}}}`}, Refused: "queue.local.storageClassName cannot change",
	},
	{
		Name: "a change of the default class to no class", Base: Flow,
		Update: []string{`spec: {queue: {local: {storageClassName: ""}}}`}, Refused: "queue.local.storageClassName cannot change",
	},
	{
		Name: "another field of the queue changes", Base: Flow,
		Update: []string{`spec: {queue: {operationTimeoutSeconds: 20, retry: {attempts: 5}}}`},
	},

	{Name: "the strict backlog", Base: Flow, Object: []string{`spec: {backlog: {maxJobs: 0, maxBytes: 0}}`}},
	{
		Name: "a backlog of no jobs and some bytes", Base: Flow, Object: []string{`spec: {backlog: {maxJobs: 0}}`},
		Refused: "maxJobs and maxBytes must both be 0",
	},
	{
		Name: "a backlog of some jobs and no bytes", Base: Flow, Object: []string{`spec: {backlog: {maxBytes: 0}}`},
		Refused: "maxJobs and maxBytes must both be 0",
	},
	{Name: "a backlog of one largest job", Base: Flow, Object: []string{`spec: {backlog: {maxBytes: 1048576}}`}},
	{
		Name: "a backlog smaller than one job", Base: Flow, Object: []string{`spec: {backlog: {maxBytes: 1048575}}`},
		Refused: "backlog.maxBytes must be at least payload.maxBytes",
	},

	{
		Name: "a first pause equal to the longest", Base: Flow,
		Object: []string{`spec: {redelivery: {backoff: {initialMilliseconds: 500, maxMilliseconds: 500}}}`},
	},
	{
		Name: "a first pause longer than the longest", Base: Flow,
		Object:  []string{`spec: {redelivery: {backoff: {initialMilliseconds: 501, maxMilliseconds: 500}}}`},
		Refused: "initialMilliseconds must not be greater than maxMilliseconds",
	},

	{Name: "a deadline of four heartbeats", Base: Flow, Object: []string{`spec: {liveness: {heartbeatSeconds: 5, deadlineSeconds: 20}}`}},
	{
		Name: "a deadline below four heartbeats", Base: Flow, Object: []string{`spec: {liveness: {heartbeatSeconds: 5, deadlineSeconds: 19}}`},
		Refused: "deadlineSeconds must be at least four times heartbeatSeconds",
	},

	{Name: "dispatch by load", Base: Flow, Object: []string{`spec: {dispatch: LeastOutstanding}`}},
	{
		Name: "a change of the dispatch", Base: Flow, Update: []string{`spec: {dispatch: LeastOutstanding}`},
	},
	{
		Name: "a dispatch that does not exist", Base: Flow, Object: []string{`spec: {dispatch: Random}`},
		Refused: `Unsupported value: "Random"`,
	},
	{Name: "a trusted namespace", Base: Flow, Object: []string{`spec: {intake: {authentication: TrustedNamespace}}`}},
	{Name: "a change to a trusted namespace", Base: Flow, Update: []string{`spec: {intake: {authentication: TrustedNamespace}}`}},
	{
		Name: "an intake that trusts everybody", Base: Flow, Object: []string{`spec: {intake: {authentication: None}}`},
		Refused: `Unsupported value: "None"`,
	},
	{Name: "allowed ServiceAccounts", Base: Flow, Object: []string{`spec: {allowedServiceAccounts: [packers, packers.eu]}`}},
	{
		Name: "an allowed ServiceAccount named twice", Base: Flow, Object: []string{`spec: {allowedServiceAccounts: [packers, packers]}`},
		Refused: "Duplicate value",
	},
	{
		Name: "an allowed ServiceAccount without a name", Base: Flow, Object: []string{`spec: {allowedServiceAccounts: [""]}`},
		Refused: "spec.allowedServiceAccounts[0]",
	},
	{
		Name: "an allowed ServiceAccount of another namespace", Base: Flow, Object: []string{`spec: {allowedServiceAccounts: ["eu/packers"]}`},
		Refused: "spec.allowedServiceAccounts[0]",
	},

	{Name: "a suspended flow", Base: Flow, Object: []string{`spec: {suspend: Enabled}`}},
	{
		Name: "a switch that is a boolean", Base: Flow, Object: []string{`spec: {suspend: true}`},
		Refused: "spec.suspend",
	},
	{Name: "delivery confirmation", Base: Flow, Object: []string{`spec: {producer: {deliveryConfirmation: Enabled}}`}},
	{
		Name: "delivery confirmation of an unknown value", Base: Flow, Object: []string{`spec: {producer: {deliveryConfirmation: Always}}`},
		Refused: `Unsupported value: "Always"`,
	},
	{Name: "deletion that refuses", Base: Flow, Object: []string{`spec: {deletionPolicy: Refuse}`}},
	{Name: "deletion that discards", Base: Flow, Object: []string{`spec: {deletionPolicy: Discard}`}},
	{
		Name: "deletion that orphans", Base: Flow, Object: []string{`spec: {deletionPolicy: Orphan}`},
		Refused: `Unsupported value: "Orphan"`,
	},
	{Name: "a runtime that is updated at once", Base: Flow, Object: []string{`spec: {runtime: {updatePolicy: Rolling}}`}},
	{Name: "a runtime that is updated by hand", Base: Flow, Object: []string{`spec: {runtime: {updatePolicy: Manual}}`}},
	{
		Name: "a runtime that is never updated", Base: Flow, Object: []string{`spec: {runtime: {updatePolicy: Never}}`},
		Refused: `Unsupported value: "Never"`,
	},
}
