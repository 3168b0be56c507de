"""Only a replica of the cluster can state where a forwarded request came from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from navarch.api.auth import ClientCertificate
from navarch.api.forward.origin import SKEW_MAX_S, Origin, Seal, StaleError

SECRET = b"s" * 32
ORIGIN = Origin(
    peer="198.51.100.7",
    certificate=ClientCertificate(common_name="ann", names=("ann@example.com",)),
)


def seal(secret: bytes = SECRET, at: float = 1_000_000.0) -> Seal:
    return Seal(secret, lambda: at)


@given(st.sampled_from([b"GET", b"POST"]), st.binary(max_size=40), st.text(max_size=40))
def test_a_signed_origin_is_read_as_it_was_written(method: bytes, target: bytes, peer: str) -> None:
    origin = Origin(peer=peer, certificate=ORIGIN.certificate)
    target = target.replace(b"\n", b"")
    assert seal().read(method, target, seal().sign(method, target, origin)) == origin


@given(st.binary(max_size=400))
def test_nothing_that_a_stranger_writes_is_an_origin(shown: bytes) -> None:
    assert seal().read(b"GET", b"/v1/nodes", shown) is None


@given(st.binary(min_size=32, max_size=32).filter(lambda x: x != SECRET))
def test_the_signature_of_another_cluster_is_none(secret: bytes) -> None:
    shown = seal(secret).sign(b"GET", b"/v1/nodes", ORIGIN)
    assert seal().read(b"GET", b"/v1/nodes", shown) is None


@given(st.data())
def test_a_signature_with_any_other_byte_is_none(data: st.DataObject) -> None:
    shown = seal().sign(b"GET", b"/v1/nodes", ORIGIN)
    at = data.draw(st.integers(0, len(shown) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda x: x != shown[at]))
    changed = shown[:at] + bytes([byte]) + shown[at + 1 :]
    assert seal().read(b"GET", b"/v1/nodes", changed) is None


def test_a_signature_holds_for_its_method_and_target_only() -> None:
    shown = seal().sign(b"GET", b"/v1/nodes", ORIGIN)
    assert seal().read(b"POST", b"/v1/nodes", shown) is None
    assert seal().read(b"GET", b"/v1/nodes?pool=a", shown) is None


@pytest.mark.parametrize("off_s", [-SKEW_MAX_S - 1, SKEW_MAX_S + 1])
def test_an_old_signature_is_refused_with_the_remedy(off_s: float) -> None:
    shown = seal().sign(b"GET", b"/v1/nodes", ORIGIN)
    later = seal(at=1_000_000.0 + off_s)
    with pytest.raises(StaleError, match="synchronize the clocks"):
        later.read(b"GET", b"/v1/nodes", shown)
    assert later.is_ours(b"GET", b"/v1/nodes", shown), "it must not be forwarded once more"
