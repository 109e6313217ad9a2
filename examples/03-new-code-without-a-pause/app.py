"""A little app: two service groups, and a job."""

import rota

app = rota.App("shop")
orders = app.service("orders", port=9901, groups={1: 2, 2: 1})


@orders.on(1, group=1)
def buy(request: rota.Request) -> bytes:
    return b"bought"


@orders.on(2, group=2)
def refund(request: rota.Request) -> bytes:
    return b"refunded"


@app.job(cron="0 3 * * *")
def tidy(run: rota.Run) -> None: ...
