"""The JSON API for stored tokens."""

from navarch.api.http.exchange import Request
from navarch.api.http.route import Route, get, listed, post
from navarch.core.ids import TokenName
from navarch.ports.tokens import Caller, IssuedToken, TokenApi, TokenRequest, TokenView
from navarch.wire.bodies import Items, NewToken, Reason, Rotation


def token_routes(tokens: TokenApi) -> list[Route]:
    """Return every operation of TokenApi."""

    async def create(request: Request) -> IssuedToken:
        body = request.json(NewToken)
        wanted = TokenRequest(name=body.name, grant=body.grant, expires_in=body.expires_in)
        return await tokens.create_token(wanted, reason=body.reason)

    async def rotate(request: Request) -> IssuedToken:
        body = request.json(Rotation)
        return await tokens.rotate_token(
            _name(request), overlap=body.overlap, expires_in=body.expires_in
        )

    async def revoke(request: Request) -> None:
        await tokens.revoke_token(_name(request), reason=request.json(Reason).reason)

    path = "/v1/tokens"
    return [
        get(
            "whoami",
            "/v1/whoami",
            "The caller of this request, and what it may do",
            lambda _: tokens.whoami(),
            Caller,
        ),
        get(
            "list_tokens",
            path,
            "List the stored tokens, without their secrets",
            lambda _: listed(tokens.list_tokens()),
            Items[TokenView],
        ),
        post(
            "create_token",
            path,
            "Create a token; the reply is the only place that shows it",
            create,
            IssuedToken,
            NewToken,
        ),
        post(
            "rotate_token",
            f"{path}/{{token}}:rotate",
            "Give a token a new secret",
            rotate,
            IssuedToken,
            Rotation,
        ),
        post("revoke_token", f"{path}/{{token}}:revoke", "Delete a token", revoke, None, Reason),
    ]


def _name(request: Request) -> TokenName:
    return TokenName(request.names["token"])
